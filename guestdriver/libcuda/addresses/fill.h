/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory can be filled. */
#ifndef PARACUDA_FILL_H
#define PARACUDA_FILL_H

#include "abi/cuda_abi.h"
#include "paracuda_table.h"
#include "transport/channel.h"

/*
 * Whether rows of `width` elements can be filled: the call itself returns this error, although it
 * is delayed. The address must be a multiple of an element's size, and so must the pitch if there
 * are several rows. An empty fill is no error, and left to the worker.
 */
CUresult fill_check(uint64_t address, uint64_t width, uint64_t rows, uint64_t pitch,
		    unsigned element);

/*
 * Sends a fill that nobody has to wait for. If the memory is another device's, the answer is
 * awaited all the same: this call must report that the device doesn't reach it, and no later one.
 */
CUresult fill_send(const struct request *r, uint64_t address);

/* Where a fill's memory lies, for those who watch. */
enum paracuda_memory fill_target(uint64_t address);

#endif
