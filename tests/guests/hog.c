/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hog: asks for much of the host's memory in ways that take little of the guest's, and prints what
 * came of each.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1u << 20)
#define ENTRY 88 /* bytes of an entry's header */
#define HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"

static void *library;

static void *find(const char *name)
{
	void *f = dlsym(library, name);

	if (!f) {
		fprintf(stderr, "libcuda has no %s\n", name);
		exit(2);
	}
	return f;
}

static void put(unsigned char *to, unsigned long long value, int bytes)
{
	int i;

	for (i = 0; i < bytes; i++)
		to[i] = value >> 8 * i;
}

/* lengths writes what of a length is beyond the 15 of an LZ4 token. */
static unsigned char *lengths(unsigned char *to, size_t n)
{
	if (n < 15)
		return to;
	for (n -= 15; n >= 255; n -= 255)
		*to++ = 255;
	*to++ = n;
	return to;
}

/*
 * pack makes a fat binary of head, unit as often as it takes to have so many bytes, and tail: an
 * LZ4 block of three parts.
 */
static unsigned char *pack(const char *head, const char *unit, size_t bytes, const char *tail,
			   size_t *size)
{
	size_t first = strlen(head) + strlen(unit), more = bytes / strlen(unit) * strlen(unit),
	       last = strlen(tail);
	unsigned char *image = calloc(1, 1024 + first + more / 255 + last),
		      *block = image + 16 + ENTRY, *at = block;

	*at++ = 0xff;
	at = lengths(at, first);
	memcpy(at, head, strlen(head));
	memcpy(at + strlen(head), unit, strlen(unit));
	at += first;
	put(at, strlen(unit), 2);
	at = lengths(at + 2, more - 4);
	*at++ = (last < 15 ? last : 15) << 4;
	at = lengths(at, last);
	memcpy(at, tail, last);
	at += last;
	*size = (at - image + 7) & ~7ul;
	put(image, 0xba55ed50, 4);
	put(image + 4, 1, 2);
	put(image + 6, 16, 2);
	put(image + 8, *size - 16, 8);
	put(image + 16, 1, 2); /* PTX */
	put(image + 18, 0x101, 2);
	put(image + 20, ENTRY, 4);
	put(image + 24, *size - 16 - ENTRY, 8);
	put(image + 32, at - block, 4);
	put(image + 36, 72, 4); /* where options would be */
	put(image + 40, 7 << 16, 4);
	put(image + 44, 75, 4);
	put(image + 56, 0x2011, 8); /* LZ4, 64 bits */
	put(image + 72, first + more + last, 8);
	return image;
}

static void load(const char *what, const char *head, const char *unit, size_t bytes,
		 const char *tail)
{
	int (*load)(void **, const void *) = find("cuModuleLoadData");
	int (*unload)(void *) = find("cuModuleUnload");
	size_t size;
	unsigned char *image = pack(head, unit, bytes, tail, &size);
	void *module;
	int result = load(&module, image);

	printf("%s of %zu bytes: %d\n", what, size, result);
	if (!result)
		unload(module);
	free(image);
}

static void events(void)
{
	int (*create)(void **, unsigned) = find("cuEventCreate"), result, n = 0;
	void *event;

	while (!(result = create(&event, 0)) && n < 1 << 22)
		n++;
	printf("%s events: %d\n", n >= 1000 ? "thousands of" : "few", result);
}

/* recursion has one thread call a function of 400 registers. */
static void recursion(void)
{
	int (*load)(void **, const void *) = find("cuModuleLoadData");
	int (*get)(void **, void *, const char *) = find("cuModuleGetFunction");
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		      void *, void **, void **) = find("cuLaunchKernel");
	int (*synchronize)(void) = find("cuCtxSynchronize"), i, result;
	char *text = malloc(MIB), *at = text;
	void *module, *function;

	at += sprintf(at, HEAD ".func dive(.param .b32 n);\n.func dive(.param .b32 n) {\n"
			       ".reg .pred p; .reg .b32 a; .reg .b64 r<400>; .param .b32 x;\n"
			       "ld.param.u32 a, [n];\n");
	for (i = 0; i < 400; i++)
		at += sprintf(at, "cvt.u64.u32 r%d, a;\n", i);
	sprintf(at, "setp.eq.u32 p, a, 0; @p ret;\n"
		    "sub.u32 a, a, 1; st.param.b32 [x], a; call dive, (x); ret;\n}\n"
		    ".visible .entry go() {\n.reg .b32 a; .param .b32 x;\n"
		    "mov.u32 a, 16000; st.param.b32 [x], a; call dive, (x); ret;\n}\n");
	result = load(&module, text);
	if (!result)
		result = get(&function, module, "go");
	if (!result)
		result = launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (!result)
		result = synchronize();
	printf("recursion: %d\n", result);
	free(text);
}

int main(void)
{
	int (*init)(unsigned), (*retain)(void **, int), (*use)(void *);
	void *context;

	setvbuf(stdout, NULL, _IOLBF, 0);
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		return 2;
	init = find("cuInit");
	retain = find("cuDevicePrimaryCtxRetain");
	use = find("cuCtxSetCurrent");
	if (init(0) || retain(&context, 0) || use(context))
		return 3;
	load("semicolons", HEAD, ";", 24 * MIB, "\n");
	load("more semicolons", HEAD, ";", 200 * MIB, "\n");
	load("instructions", HEAD ".visible .entry f() {\n", "bar.sync 0;", 24 * MIB, "ret; }\n");
	events();
	recursion();
	usleep(500000);
	return 0;
}
