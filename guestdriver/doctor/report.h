/* SPDX-License-Identifier: Apache-2.0 */
/* What checks find, and how it is printed. */
#ifndef PARACUDA_DOCTOR_REPORT_H
#define PARACUDA_DOCTOR_REPORT_H

#include <stdbool.h>

enum level { OK, WARNING, PROBLEM };

struct finding {
	enum level level;
	char found[512];
	char fix[256]; /* the command that fixes it; "" if there is none */
};

#define FORMAT(at) __attribute__((format(printf, at, at + 1)))

/* Each fills in a finding, cut to its size. */
void good(struct finding *f, const char *format, ...) FORMAT(2);
void warn(struct finding *f, const char *fix, const char *format, ...) FORMAT(3);
void bad(struct finding *f, const char *fix, const char *format, ...) FORMAT(3);
/* Sets its fix, with values in it. */
void fixed_by(struct finding *f, const char *format, ...) FORMAT(2);

/* Prints a finding. `first` is true for the first of all. */
void print_finding(const char *check, const struct finding *f, bool json, bool first);
/* Prints the summary. */
void print_sum(int problems, int warnings, bool json);

#endif
