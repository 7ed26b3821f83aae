/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_LEAST_H
#define PARACUDA_LEAST_H

#include <stdint.h>

/* The smaller one of two sizes or times. */
static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
