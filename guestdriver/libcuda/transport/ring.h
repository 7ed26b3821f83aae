/* SPDX-License-Identifier: Apache-2.0 */
/* The command ring: how commands get to the worker. */
#ifndef PARACUDA_RING_H
#define PARACUDA_RING_H

#include "transport/request.h"

/* Bytes that the request takes in the ring, 0 if it is too large. */
size_t ring_bytes(const struct request *r);

/*
 * Appends a command, waiting for room if there is none. The worker takes it after those before it.
 * Returns 0, or the error that killed the channel.
 */
CUresult ring_append(const struct request *r, size_t bytes, int slot, bool reply, uint32_t seq);

/* Wakes the worker if it sleeps. Called after storing something that it must look at. */
void ring_wake(void);

#endif
