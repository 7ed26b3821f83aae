/* SPDX-License-Identifier: Apache-2.0 */
#include "system.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *root = "";

struct path at(const char *format, ...)
{
	struct path p;
	int n = snprintf(p.text, sizeof(p.text), "%s", root);
	va_list args;

	if (n < 0 || (size_t)n >= sizeof(p.text))
		n = 0;
	va_start(args, format);
	vsnprintf(p.text + n, sizeof(p.text) - (size_t)n, format, args);
	va_end(args);
	return p;
}

bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

void word(const char *path, char *out, size_t room)
{
	FILE *file = fopen(path, "re");

	out[0] = 0;
	if (!file)
		return;
	if (fgets(out, (int)room, file))
		out[strcspn(out, " \t\n")] = 0;
	else
		out[0] = 0;
	fclose(file);
}

void link_name(const char *path, char *out, size_t room)
{
	char to[PATH_MAX];
	ssize_t n = readlink(path, to, sizeof(to) - 1);
	const char *name;

	to[n < 0 ? 0 : n] = 0;
	name = strrchr(to, '/');
	snprintf(out, room, "%s", name ? name + 1 : to);
}

bool file_has(const char *path, const char *text)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	bool has = false;

	while (file && !has && fgets(line, sizeof(line), file))
		has = strstr(line, text);
	if (file)
		fclose(file);
	return has;
}

int first_line(const char *command, char *out, size_t room)
{
	FILE *from = popen(command, "re");
	char more[4096];
	int status;

	out[0] = 0;
	if (!from)
		return -1;
	if (fgets(out, (int)room, from))
		out[strcspn(out, "\n")] = 0;
	while (fgets(more, sizeof(more), from))
		; /* it must not end for want of a reader */
	status = pclose(from);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *kernel(void)
{
	static char release[128];

	if (!release[0])
		word(at("/proc/sys/kernel/osrelease").text, release, sizeof(release));
	return release;
}
