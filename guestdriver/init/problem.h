/* SPDX-License-Identifier: Apache-2.0 */
/* What could not be done, in words. */
#ifndef PARACUDA_PROBLEM_H
#define PARACUDA_PROBLEM_H

/* problem keeps the words and errno's own for problem_words, and returns -1. */
__attribute__((format(printf, 1, 2))) int problem(const char *format, ...);

/* problem_words says what the call that returned -1 last could not do. */
const char *problem_words(void);

#endif
