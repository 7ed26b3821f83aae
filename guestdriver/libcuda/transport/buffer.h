/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffer arguments of calls. They travel in the command, in the bulk area, or as pinned pages of
 * the caller.
 */
#ifndef PARACUDA_BUFFER_H
#define PARACUDA_BUFFER_H

#include "transport/request.h"

/* A buffer argument in use by a call. */
struct buffer {
	uint64_t bulk; /* offset of the bulk memory, 0 for none */
	void *out; /* where its content goes after the call */
	size_t bytes;
};

/*
 * Makes an argument of a buffer that the worker reads. It goes into a request, which is sent or
 * dropped.
 */
CUresult buffer_in(struct argument *a, struct buffer *b, const void *data, size_t bytes);

/* Does so for a buffer that the worker writes. */
CUresult buffer_out(struct argument *a, struct buffer *b, void *data, size_t bytes);

/* After the call: copies out up to `bytes` of what was written, and gives everything back. */
void buffer_done(struct buffer *b);

/* How long map_memory waits for memory that others have pinned for copies. */
extern uint64_t map_patience_ns;

/*
 * Pins memory for one command; 0 or an error. The driver's EINVAL (too many runs) becomes
 * CUDA_ERROR_NOT_READY.
 */
CUresult map_memory(const void *data, size_t bytes, unsigned flags, uint32_t *id);

#endif
