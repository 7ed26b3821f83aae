/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paracuda-doctor looks at a VM for what keeps its programs from the GPU, and says which command
 * fixes it. It changes nothing. doctor.c has the list of checks and reads the command line; each
 * check is a function of checks.h, in a process of its own.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "apart.h"
#include "checks.h"
#include "system.h"

/* In the order in which things need one another. */
static const struct check {
	const char *name;
	void (*look)(struct finding *f);
} checks[] = {
	{ "device", check_device },
	{ "module", check_module },
	{ "installed", check_installed },
	{ "headers", check_headers },
	{ "node", check_node },
	{ "channel", check_channel },
	{ "library", check_library },
	{ "nvidia-nodes", check_nvidia_nodes },
	{ "nvidia-smi", check_nvidia_smi },
	{ "containers", check_containers },
	{ "computation", check_computation },
};

enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static const char usage[] =
	"Usage: paracuda-doctor [--json] [CHECK...]\n\n"
	"Looks at this VM for what keeps its programs from the GPU, and says which command\n"
	"fixes it. It changes nothing. Exit code 1: there is a problem; warnings are none.\n\n"
	"  --json      print JSON\n"
	"  --root DIR  look at the files below DIR, as for tests\n"
	"  --help      print this\n\n"
	"Checks (all, if none is named):";

static void print_usage(void)
{
	printf("%s", usage);
	for (int i = 0; i < CHECKS; i++)
		printf(" %s", checks[i].name);
	putchar('\n');
}

static int complain(const char *what, const char *word)
{
	fprintf(stderr, "paracuda-doctor: %s%s: see paracuda-doctor --help\n", what, word);
	return 2;
}

/* Whether a check is among those that are named. */
static bool wanted(const char *name, char *const *named)
{
	if (!*named)
		return true;
	for (; *named; named++)
		if (!strcmp(*named, name))
			return true;
	return false;
}

static int unknown(char *const *named)
{
	for (; *named; named++) {
		bool known = false;

		for (int i = 0; i < CHECKS; i++)
			known |= !strcmp(*named, checks[i].name);
		if (!known)
			return complain("no such check: ", *named);
	}
	return 0;
}

static int examine(char *const *named, bool json)
{
	int count[PROBLEM + 1] = { 0 };
	bool first = true;

	for (int i = 0; i < CHECKS; i++) {
		struct finding f;

		if (!wanted(checks[i].name, named))
			continue;
		fflush(stdout);
		apart(checks[i].look, &f);
		print_finding(checks[i].name, &f, json, first);
		count[f.level]++;
		first = false;
	}
	print_sum(count[PROBLEM], count[WARNING], json);
	if (fflush(stdout) || ferror(stdout))
		return complain("standard output: can't be written", "");
	return count[PROBLEM] ? 1 : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "json", no_argument, NULL, 'j' },
						 { "root", required_argument, NULL, 'r' },
						 { "help", no_argument, NULL, 'h' },
						 { 0 } };
	bool json = false;
	int o, wrong;

	opterr = 0;
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (o) {
		case 'j':
			json = true;
			break;
		case 'r':
			root = optarg;
			break;
		case 'h':
			print_usage();
			return 0;
		default:
			return complain("bad option ", argv[optind - 1]);
		}
	}
	wrong = unknown(argv + optind);
	return wrong ? wrong : examine(argv + optind, json);
}
