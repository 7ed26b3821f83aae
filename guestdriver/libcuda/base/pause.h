/* SPDX-License-Identifier: Apache-2.0 */
/* How a polling loop pauses between two looks. */
#ifndef PARACUDA_PAUSE_H
#define PARACUDA_PAUSE_H

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

#endif
