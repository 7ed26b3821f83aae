/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_STREAM_H
#define PARACUDA_STREAM_H

#include "context/handle.h"

/* Enters a new stream of a context. */
CUresult stream_add(uint64_t number, struct context *c, unsigned flags, int priority);

/* The default streams are always known. */
static inline bool stream_known(CUstream s)
{
	return (uintptr_t)s <= CU_STREAM_PER_THREAD || handle_known(HANDLE_STREAM, s);
}

#endif
