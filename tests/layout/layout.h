/* SPDX-License-Identifier: Apache-2.0 */
/* What the generated comparison of CUDA's layout with a cuda.h is written in. */
#ifndef PARACUDA_TESTS_LAYOUT_H
#define PARACUDA_TESTS_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

#include <cuda.h>

/* HAVE_NAME for each name in that header. */
#include "have.h"

#if CUDA_VERSION < 12040

/* 77 says that nothing was compared. */
static int too_old(int oldest)
{
	printf("layout: CUDA %d.%d: not compared, it is older than %d.%d\n", CUDA_VERSION / 1000,
	       CUDA_VERSION % 1000 / 10, oldest / 1000, oldest % 1000 / 10);
	return 77;
}

#else

static int compared, lacking, wrong;

static void number(const char *what, const char *name, long long have, long long described)
{
	compared++;
	if (have == described)
		return;
	wrong++;
	printf("%s %s: %lld in the header, %lld as described\n", name, what, have, described);
}

static void size(const char *name, size_t have, size_t described)
{
	number("size", name, (long long)have, (long long)described);
}

static void value(const char *name, long long have, long long described)
{
	number("value", name, have, described);
}

#define FIELD(s, path, offset, bytes)							\
	do {										\
		number("offset", #s "." #path, (long long)offsetof(s, path), offset);	\
		number("size", #s "." #path, (long long)sizeof(((s *)0)->path), bytes);	\
	} while (0)

/* Only an older header may lack what is described. */
__attribute__((unused)) static void missing(const char *name, int since)
{
	if (CUDA_VERSION >= since) {
		wrong++;
		printf("%s: not in the header, which should have it since %d.%d\n", name,
		       since / 1000, since % 1000 / 10);
		return;
	}
	lacking++;
	printf("%s: not compared, this header is older than %d.%d\n", name, since / 1000,
	       since % 1000 / 10);
}

static int verdict(void)
{
	printf("layout: CUDA %d.%d: %d compared, %d wrong, %d that it doesn't have\n",
	       CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, compared, wrong, lacking);
	return wrong || !compared;
}

#endif
#endif
