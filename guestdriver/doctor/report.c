/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const levels[] = { "ok", "warning", "problem" };

#define FILL(f, its_level, its_fix, format)                              \
	do {                                                             \
		va_list args;                                            \
		va_start(args, format);                                  \
		(f)->level = (its_level);                                \
		snprintf((f)->fix, sizeof((f)->fix), "%s", its_fix);     \
		vsnprintf((f)->found, sizeof((f)->found), format, args); \
		va_end(args);                                            \
	} while (0)

void good(struct finding *f, const char *format, ...)
{
	FILL(f, OK, "", format);
}

void warn(struct finding *f, const char *fix, const char *format, ...)
{
	FILL(f, WARNING, fix, format);
}

void bad(struct finding *f, const char *fix, const char *format, ...)
{
	FILL(f, PROBLEM, fix, format);
}

void fixed_by(struct finding *f, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(f->fix, sizeof(f->fix), format, args);
	va_end(args);
}

/*
 * Prints a text without characters that a terminal or JSON would take for
 * control.
 */
static void print_plain(const char *text, bool json)
{
	for (const unsigned char *c = (const void *)text; *c; c++) {
		if (*c < ' ' || *c == 127)
			putchar('?');
		else if (json && (*c == '"' || *c == '\\'))
			printf("\\%c", *c);
		else
			putchar(*c);
	}
}

static void print_json(const char *check, const struct finding *f, bool first)
{
	printf("%s\n    {\"check\": \"%s\", \"level\": \"%s\", \"found\": \"",
	       first ? "{\n  \"findings\": [" : ",", check, levels[f->level]);
	print_plain(f->found, true);
	if (f->fix[0]) {
		printf("\", \"fix\": \"");
		print_plain(f->fix, true);
	}
	printf("\"}");
}

void print_finding(const char *check, const struct finding *f, bool json, bool first)
{
	if (json) {
		print_json(check, f, first);
		return;
	}
	printf("%-8s %s: ", levels[f->level], check);
	print_plain(f->found, false);
	if (f->fix[0]) {
		printf("\n           fix: ");
		print_plain(f->fix, false);
	}
	putchar('\n');
	fflush(stdout);
}

static void print_count(int n, const char *what)
{
	if (n)
		printf("%d %s%s", n, what, n == 1 ? "" : "s");
	else
		printf("no %ss", what);
}

void print_sum(int problems, int warnings, bool json)
{
	if (json) {
		printf("\n  ],\n  \"healthy\": %s\n}\n", problems ? "false" : "true");
		return;
	}
	print_count(problems, "problem");
	printf(", ");
	print_count(warnings, "warning");
	putchar('\n');
}
