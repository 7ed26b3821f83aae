/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paracuda-cdi writes what container engines need to know of this VM's GPUs, in the format of the
 * Container Device Interface: which nodes and files a container gets with paracuda.dev/gpu=all, or
 * with =0, =1, ... It asks the library for the number of GPUs, as a program does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paracuda_table.h"

enum { MOST_GPUS = 64 };

/* Where loaders look by default: on Debian and Ubuntu, and on other systems. */
static const char *const places[] = { "/usr/lib/x86_64-linux-gnu", "/usr/lib64" };

/* A library, found by one of its functions. */
static const struct library {
	const char *name, *function;
} libraries[] = {
	{ "libcuda.so.1", "cuGetExportTable" },
	{ "libnvidia-ml.so.1", "nvmlInit_v2" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("paracuda-cdi: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return 1;
}

/* Where programs get a library from; NULL if nowhere. It stays loaded. */
static const char *found(const struct library *l, void **symbol)
{
	void *library = dlopen(l->name, RTLD_NOW);
	Dl_info info;

	*symbol = library ? dlsym(library, l->function) : NULL;
	if (!*symbol || !dladdr(*symbol, &info))
		return NULL;
	return info.dli_fname;
}

/* How many GPUs programs see; 0, and a message, if there are none. */
static int count_gpus(void *get_table)
{
	static const uint8_t id[16] = { PARACUDA_TABLE_ID };
	int (*get)(const void **, const void *), (*init)(unsigned), (*count)(int *);
	void *library = dlopen(libraries[0].name, RTLD_NOW);
	void *init_symbol = dlsym(library, "cuInit");
	void *count_symbol = dlsym(library, "cuDeviceGetCount");
	const void *table = NULL;
	int n = 0, r;

	memcpy(&get, &get_table, sizeof(get));
	memcpy(&init, &init_symbol, sizeof(init));
	memcpy(&count, &count_symbol, sizeof(count));
	if (get(&table, id) || !table || !init || !count) {
		complain("libcuda.so.1 isn't Paracuda's: see paracuda-doctor library");
		return 0;
	}
	r = init(0);
	if (!r)
		r = count(&n);
	if (r || n < 1 || n > MOST_GPUS) {
		complain("no GPU (CUDA error %d, %d GPUs): see paracuda-doctor", r, n);
		return 0;
	}
	return n;
}

/* A path of the VM that needs no escapes in JSON. */
static bool plain(const char *path)
{
	return path[0] == '/' && !strpbrk(path, "\"\\\n\r\t");
}

static void print_mount(FILE *to, const char *from, const char *dir, const char *name, bool *first)
{
	fprintf(to,
		"%s\n      {\"hostPath\": \"%s\", \"containerPath\": \"%s/%s\", "
		"\"options\": [\"ro\", \"nosuid\", \"nodev\", \"rbind\", \"rprivate\"]}",
		*first ? "" : ",", from, dir, name);
	*first = false;
}

/* The files that all containers get. */
static void print_mounts(FILE *to, const char *const *paths)
{
	bool first = true;

	fprintf(to, "    \"mounts\": [");
	for (size_t i = 0; i < COUNT(libraries); i++)
		for (size_t p = 0; p < COUNT(places); p++)
			print_mount(to, paths[i], places[p], libraries[i].name, &first);
	for (size_t p = 0; p < COUNT(places); p++)
		print_mount(to, paths[0], places[p], "libcuda.so", &first);
	if (!access("/usr/bin/nvidia-smi", X_OK))
		print_mount(to, "/usr/bin/nvidia-smi", "/usr/bin", "nvidia-smi", &first);
	fprintf(to, "\n    ]\n");
}

/* The nodes that all containers get; programs look for NVIDIA's, and never open them. */
static void print_nodes(FILE *to)
{
	static const char *const nodes[] = { "/dev/nvidiactl", "/dev/nvidia0" };

	fprintf(to, "    \"deviceNodes\": [{\"path\": \"/dev/paracuda\"}");
	for (size_t i = 0; i < COUNT(nodes); i++)
		if (!access(nodes[i], F_OK))
			fprintf(to, ", {\"path\": \"%s\"}", nodes[i]);
	fprintf(to, "],\n");
}

static void print_device(FILE *to, const char *name, const char *visible, const char *end)
{
	fprintf(to,
		"    {\"name\": \"%s\", \"containerEdits\": "
		"{\"env\": [\"CUDA_VISIBLE_DEVICES=%s\"]}}%s\n",
		name, visible, end);
}

static void print_spec(FILE *to, int gpus, const char *const *paths)
{
	char all[MOST_GPUS * 4] = "", name[8];

	/* 0.5.0 is the first in which names may begin with a digit. */
	fprintf(to, "{\n  \"cdiVersion\": \"0.5.0\",\n  \"kind\": \"paracuda.dev/gpu\",\n"
		    "  \"devices\": [\n");
	for (int i = 0; i < gpus; i++) {
		snprintf(name, sizeof(name), "%d", i);
		print_device(to, name, name, ",");
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%d", i ? "," : "", i);
	}
	print_device(to, "all", all, "");
	fprintf(to, "  ],\n  \"containerEdits\": {\n");
	print_nodes(to);
	print_mounts(to, paths);
	fprintf(to, "  }\n}\n");
}

/* Makes the folder that a file is to be in. */
static void make_folder(const char *file)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(file, '/');

	if (!slash || slash == file || (size_t)(slash - file) >= sizeof(dir))
		return;
	memcpy(dir, file, (size_t)(slash - file));
	dir[slash - file] = 0;
	mkdir(dir, 0755); /* if it isn't there afterwards, the file says so */
}

/* Replaces a file by a text, atomically: engines may read it at any time. */
static int replace(const char *file, const char *text)
{
	char temporary[PATH_MAX];
	FILE *to;
	int fd;

	/* Engines read files that end in .json or .yaml. */
	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", file) >= sizeof(temporary))
		return complain("%s: the name is too long", file);
	make_folder(file);
	fd = mkstemp(temporary);
	to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!to)
		return complain("%s: %s", temporary, strerror(errno));
	if (fputs(text, to) < 0 || fflush(to) || fchmod(fd, 0644) || rename(temporary, file)) {
		complain("%s: %s", file, strerror(errno));
		unlink(temporary);
		fclose(to);
		return 1;
	}
	fclose(to);
	return 0;
}

static int write_spec(const char *file)
{
	const char *paths[COUNT(libraries)];
	void *symbol, *get_table = NULL;
	char *text = NULL;
	size_t size;
	FILE *to;
	int gpus;

	unsetenv("CUDA_VISIBLE_DEVICES");
	for (size_t i = 0; i < COUNT(libraries); i++) {
		paths[i] = found(&libraries[i], &symbol);
		if (!paths[i] || !plain(paths[i]))
			return complain("no %s: see paracuda-doctor library", libraries[i].name);
		if (!i)
			get_table = symbol;
	}
	gpus = count_gpus(get_table);
	if (!gpus)
		return 1;
	to = open_memstream(&text, &size);
	if (!to)
		return complain("%s", strerror(errno));
	print_spec(to, gpus, paths);
	if (fclose(to))
		return complain("%s", strerror(errno));
	if (file)
		return replace(file, text);
	return fputs(text, stdout) < 0 || fflush(stdout) ? complain("%s", strerror(errno)) : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int o;

	opterr = 0; /* one line of ours is enough */
	o = getopt_long(argc, argv, "", options, NULL);
	if (o == 'h') {
		puts("Usage: paracuda-cdi [FILE]\n\n"
		     "Writes what container engines need to know of this VM's GPUs (the Container\n"
		     "Device Interface) to FILE, or to standard output. Engines read\n"
		     "/etc/cdi/paracuda.json.");
		return 0;
	}
	if (o != -1 || argc - optind > 1) {
		fputs("paracuda-cdi: see paracuda-cdi --help\n", stderr);
		return 2;
	}
	return write_spec(argv[optind]);
}
