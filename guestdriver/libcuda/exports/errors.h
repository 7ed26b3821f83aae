/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_ERRORS_H
#define PARACUDA_ERRORS_H

struct error_text {
	int number;
	const char *name;
	const char *text;
};

extern const struct error_text error_texts[]; /* ascending */
extern const unsigned error_texts_count;

#endif
