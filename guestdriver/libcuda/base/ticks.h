/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A clock that never costs a system call, even in User Mode Linux, which has no vDSO. For polling
 * only.
 */
#ifndef PARACUDA_TICKS_H
#define PARACUDA_TICKS_H

#include <stdint.h>

/* Measures the rate; once, before the others. */
void ticks_init(void);

uint64_t ticks_per_us(void);

#if defined(__x86_64__)
static inline uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#else
uint64_t ticks(void);
#endif

#endif
