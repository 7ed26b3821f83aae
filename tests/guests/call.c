/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call FUNCTION...: calls functions of libcuda.so.1 by name, without arguments of any use, and
 * prints their results. call hold: has a linker, which can't be saved, says so, and stays; call
 * graph: has a graph. The exit code is 3 where CUDA can't be initialised.
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

/* hold makes a linker, or a graph, in a context of its own. */
static int hold(void *library, int graph)
{
	function *create = find(library, "cuCtxCreate_v2");
	function *make = find(library, graph ? "cuGraphCreate" : "cuLinkCreate_v2");
	void *context, *made;

	if (!create || !make || create(&context, NULL, NULL, NULL) ||
	    (graph ? make(&made, NULL, NULL, NULL) : make(NULL, NULL, NULL, &made)))
		return 3;
	puts("holding");
	fflush(stdout);
	return pause();
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

		if (!strcmp(arguments[i], "hold"))
			return hold(library, 0);
		if (!strcmp(arguments[i], "graph"))
			return hold(library, 1);
		f = find(library, arguments[i]);
		if (!f)
			return 2;
		printf("%d\n", f(NULL, NULL, NULL, NULL));
	}
	return 0;
}
