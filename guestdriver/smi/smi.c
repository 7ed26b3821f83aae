/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. NVIDIA's other options are refused, not ignored. */
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "smi.h"

static const char usage[] =
	"Usage: nvidia-smi [-L | --query-gpu=FIELDS | --query-compute-apps=FIELDS] [options]\n\n"
	"Shows the GPUs of this VM and the programs that use them. This is Paracuda's own\n"
	"nvidia-smi; Debian's package nvidia-smi, which has more, can be installed beside it.\n\n"
	"  -L, --list-gpus                   a line for each GPU\n"
	"  --query-gpu=FIELDS                values of each GPU, with commas between them\n"
	"  --query-compute-apps=FIELDS       values of each program\n"
	"  --format=csv[,noheader][,nounits] how they are printed\n"
	"  --help-query-gpu                  list the fields\n"
	"  -i, --id=GPU                      only this one: an index, a UUID or a bus id\n"
	"  -l, --loop=SECONDS                again and again\n"
	"  --version                         say which versions these are\n"
	"  -h, --help                        print this\n";

enum { QUERY_GPU = 256, QUERY_APPS, FORMAT, HELP_FIELDS, VERSION };

static const struct option options[] = {
	{ "list-gpus", no_argument, NULL, 'L' },
	{ "query-gpu", required_argument, NULL, QUERY_GPU },
	{ "query-compute-apps", required_argument, NULL, QUERY_APPS },
	{ "format", required_argument, NULL, FORMAT },
	{ "help-query-gpu", no_argument, NULL, HELP_FIELDS },
	{ "id", required_argument, NULL, 'i' },
	{ "loop", required_argument, NULL, 'l' },
	{ "version", no_argument, NULL, VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* What is asked for. */
struct request {
	int what; /* an option of those above, or 0 for the table */
	const char *fields, *only, *format;
	struct csv csv;
	unsigned every; /* seconds; 0: once */
};

static int complain(const char *what, const char *word)
{
	fprintf(stderr, "nvidia-smi: %s%s: see nvidia-smi --help\n", what, word);
	return EXIT_USAGE;
}

static int read_format(struct request *r)
{
	char *copy = strdup(r->format), *rest = copy, *word;
	bool is_csv = false, good = copy;

	r->csv = (struct csv){ true, true };
	while (good && (word = strsep(&rest, ","))) {
		if (!strcmp(word, "csv"))
			is_csv = true;
		else if (!strcmp(word, "noheader"))
			r->csv.header = false;
		else if (!strcmp(word, "nounits"))
			r->csv.units = false;
		else
			good = false;
	}
	free(copy);
	return good && is_csv ? 0 : complain("want --format=csv, not ", r->format);
}

static int read_seconds(const char *text, unsigned *seconds)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (end == text || *end || !n || n > 86400)
		return complain("want seconds, not ", text);
	*seconds = (unsigned)n;
	return 0;
}

/* Takes one option. Returns 0 or an exit code. */
static int take(struct request *r, int option, const char *word)
{
	switch (option) {
	case 'i':
		r->only = optarg;
		return 0;
	case 'l':
		return read_seconds(optarg, &r->every);
	case FORMAT:
		r->format = optarg;
		return read_format(r);
	case QUERY_GPU:
	case QUERY_APPS:
		r->fields = optarg;
		/* fall through */
	case 'L':
	case HELP_FIELDS:
	case VERSION:
	case 'h':
		r->what = option;
		return 0;
	default:
		return complain("this one hasn't ", word ? word : "that");
	}
}

static int read_options(struct request *r, int argc, char **argv)
{
	int option, code = 0;

	opterr = 0; /* one line of ours is enough */
	while (!code && (option = getopt_long(argc, argv, "+Li:l:h", options, NULL)) != -1)
		code = take(r, option, argv[optind - 1]);
	if (!code && optind < argc)
		code = complain("this one hasn't ", argv[optind]);
	if (!code && r->fields && !r->format)
		code = complain("queries want ", "--format=csv");
	return code;
}

static int print_version(const struct machine *m)
{
	printf("NVIDIA-SMI version  : %s (Paracuda's own)\n", m->driver);
	printf("DRIVER version      : %s\n", m->driver);
	printf("CUDA Version        : %d.%d\n", m->cuda / 1000, m->cuda % 1000 / 10);
	return 0;
}

static int print_once(const struct library *l, const struct request *r, struct csv how)
{
	struct machine m;
	int code = machine_look(l, r->only, &m);

	if (!code)
		switch (r->what) {
		case QUERY_GPU:
			code = query_gpus(&m, r->fields, how);
			break;
		case QUERY_APPS:
			code = query_processes(l, &m, r->fields, how);
			break;
		case 'L':
			code = list_gpus(&m);
			break;
		case VERSION:
			code = print_version(&m);
			break;
		default:
			print_table(l, &m);
		}
	free(m.cards);
	return code;
}

int main(int argc, char **argv)
{
	struct request r = { .only = "" };
	struct csv how;
	struct library l;
	int code = read_options(&r, argc, argv);

	if (code)
		return code;
	if (r.what == 'h')
		return fputs(usage, stdout) < 0;
	if (r.what == HELP_FIELDS) {
		fields_print();
		return 0;
	}
	code = library_open(&l);
	for (how = r.csv; !code; how.header = false) {
		code = print_once(&l, &r, how);
		if (fflush(stdout) || !r.every)
			break;
		sleep(r.every);
	}
	return code;
}
