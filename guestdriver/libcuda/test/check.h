/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_CHECK_H
#define PARACUDA_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

#define CHECK_IS(want, got)                                                                   \
	do {                                                                                  \
		long long want_ = (long long)(want), got_ = (long long)(got);                 \
		if (want_ != got_) {                                                          \
			fprintf(stderr, "%s:%d: %s is %lld, want %lld\n", __FILE__, __LINE__, \
				#got, got_, want_);                                           \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

#endif
