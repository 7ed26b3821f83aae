/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char words[512];

const char *problem_words(void)
{
	return words;
}

int problem(const char *format, ...)
{
	int e = errno, n;
	va_list ap;

	va_start(ap, format);
	n = vsnprintf(words, sizeof(words), format, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(words))
		snprintf(words + n, sizeof(words) - n, ": %s", strerror(e));
	return -1;
}
