// SPDX-License-Identifier: Apache-2.0

// NVIDIA's driver names its threads through files in /proc/self/task, and cuInit fails if it can't.
// Who may write there may also write to /proc/self/task/N/mem, and so change code: a worker may
// not. So the driver, which finds this fopen before the C library's, writes names to memory.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int names_thread(const char *path, const char *mode)
{
	static const char folder[] = "/proc/self/task/", file[] = "/comm";
	size_t length = strlen(path);

	return mode[0] == 'w' && length >= sizeof(folder) + sizeof(file) &&
	       !strncmp(path, folder, sizeof(folder) - 1) &&
	       !strcmp(path + length - (sizeof(file) - 1), file);
}

static FILE *open_file(const char *function, const char *path, const char *mode)
{
	FILE *(*open)(const char *, const char *);

	if (names_thread(path, mode))
		return fmemopen(NULL, 64, "w");
	*(void **)&open = dlsym(RTLD_NEXT, function);
	return open(path, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return open_file("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	return open_file("fopen64", path, mode);
}
