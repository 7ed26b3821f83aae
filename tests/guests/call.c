/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call FUNCTION...: calls functions of libcuda.so.1 by name, without arguments of any use, and
 * prints their results. call hold: says that it has initialised CUDA, and stays. The exit code is 3
 * where CUDA can't be initialised.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int function(void *, void *, void *, void *);

static function *find(void *library, const char *name)
{
	function *f;

	*(void **)&f = dlsym(library, name);
	if (!f)
		fprintf(stderr, "libcuda has no %s\n", name);
	return f;
}

int main(int count, char **arguments)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	function *init = library ? find(library, "cuInit") : NULL;
	int i;

	if (!init)
		return 2;
	if (init(NULL, NULL, NULL, NULL) != 0)
		return 3;
	for (i = 1; i < count; i++) {
		function *f;

		if (!strcmp(arguments[i], "hold")) {
			puts("holding");
			fflush(stdout);
			pause();
		}
		f = find(library, arguments[i]);
		if (!f)
			return 2;
		printf("%d\n", f(NULL, NULL, NULL, NULL));
	}
	return 0;
}
