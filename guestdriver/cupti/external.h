/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers by which a client knows what a thread does: a stack for each
 * thread.
 */
#ifndef PARACUDA_CUPTI_EXTERNAL_H
#define PARACUDA_CUPTI_EXTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define EXTERNAL_KINDS 8

/* The uppermost number of a kind, if the calling thread has any. */
bool external_top(unsigned kind, uint64_t *number);

#endif
