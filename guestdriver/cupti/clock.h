/* SPDX-License-Identifier: Apache-2.0 */
/* Times. Inside: nanoseconds of CLOCK_MONOTONIC. A client gets those of its own clock. */
#ifndef PARACUDA_CUPTI_CLOCK_H
#define PARACUDA_CUPTI_CLOCK_H

#include <stdint.h>

uint64_t clock_now(void);

/* What the client's clock says. */
uint64_t clock_client_now(void);

/* Sets the client's clock; NULL is the time of day in nanoseconds. */
void clock_use(uint64_t (*now)(void));

/* Reads both clocks: what clock_client tells lies between the first reading and the last. */
void clock_read(void);

/* Converts a time to the client's clock. */
uint64_t clock_client(uint64_t ns);

#endif
