/* SPDX-License-Identifier: Apache-2.0 */
/* Times. Inside they are nanoseconds of CLOCK_MONOTONIC; a client sees those of its own clock. */
#ifndef PARACUDA_CUPTI_CLOCK_H
#define PARACUDA_CUPTI_CLOCK_H

#include <stdint.h>

uint64_t clock_now(void);

/* What the client's clock says. */
uint64_t clock_client_now(void);

/* The client's clock from now on; NULL is the time of day in nanoseconds. */
void clock_use(uint64_t (*now)(void));

/* Reads both clocks: what clock_client tells lies between the first reading and the last. */
void clock_read(void);

/* A time as the client's clock had it. */
uint64_t clock_client(uint64_t ns);

#endif
