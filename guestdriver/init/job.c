/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <stdlib.h>
#include <string.h>

/* value returns what follows "key=" in s, or NULL. */
static char *value(char *s, const char *key)
{
	size_t n = strlen(key);

	return strncmp(s, key, n) == 0 && s[n] == '=' ? s + n + 1 : NULL;
}

/* room makes an array with a place for every string of the text and a NULL. */
static void *room(const char *text, size_t len, size_t size)
{
	size_t n = 1;

	for (size_t i = 0; i < len; i++)
		n += text[i] == 0;
	return calloc(n, size);
}

struct counts {
	size_t env, args;
};

static void take(struct job *job, struct counts *n, char *s)
{
	char *v;

	if ((v = value(s, "module"))) {
		job->modules[job->module_count].parameters = "";
		job->modules[job->module_count++].file = v;
	} else if ((v = value(s, "parameters")) && job->module_count > 0) {
		job->modules[job->module_count - 1].parameters = v;
	} else if ((v = value(s, "wait"))) {
		job->wait = v;
	} else if ((v = value(s, "dir"))) {
		job->dir = v;
	} else if ((v = value(s, "layer")) || (v = value(s, "write"))) {
		job->places[job->place_count++] = (struct place){ .dir = v, .keep = s[0] == 'w' };
	} else if ((v = value(s, "tag")) && job->place_count > 0) {
		job->places[job->place_count - 1].tag = v;
	} else if ((v = value(s, "library"))) {
		job->library = v;
	} else if ((v = value(s, "over"))) {
		job->overs[job->over_count++] = v;
	} else if ((v = value(s, "env"))) {
		job->env[n->env++] = v;
	} else if ((v = value(s, "arg"))) {
		job->args[n->args++] = v;
	} else if ((v = value(s, "stdin"))) {
		job->no_stdin = strcmp(v, "null") == 0;
	}
}

int job_parse(struct job *job, char *text, size_t len)
{
	struct counts n = { 0, 0 };

	memset(job, 0, sizeof(*job));
	job->dir = job->library = "/";
	job->modules = room(text, len, sizeof(*job->modules));
	job->places = room(text, len, sizeof(*job->places));
	job->overs = room(text, len, sizeof(*job->overs));
	job->env = room(text, len, sizeof(*job->env));
	job->args = room(text, len, sizeof(*job->args));
	if (!job->modules || !job->places || !job->overs || !job->env || !job->args)
		return -1;
	for (char *s = text; s < text + len; s += strlen(s) + 1)
		take(job, &n, s);
	return n.args > 0 ? 0 : -1;
}
