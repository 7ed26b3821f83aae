/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between any two addresses; what lies there is looked up. */
#ifndef PARACUDA_COPY_H
#define PARACUDA_COPY_H

#include "addresses/memory_map.h"
#include "paracuda_table.h"
#include "transport/channel.h"

/* One side of a copy. */
struct side {
	uint64_t address;
	bool device; /* memory that commands name by its address: the device's, or managed */
	bool managed;
	bool unknown; /* the call says that it is the device's; nothing is known to be there */
	bool pinned; /* host memory of one registration, at `offset` of map `map` */
	/*
	 * It is to be read before the call returns: host memory counts as pageable, managed memory
	 * as the host's.
	 */
	bool at_once;
	bool several; /* host memory of several registrations */
	uint32_t map;
	uint64_t offset;
};

/*
 * Hints: the call says that the side is device memory (it may still be pinned host memory), or that
 * the source is to be read at once.
 */
#define SIDE_ANY 0
#define SIDE_DEVICE 1
#define SIDE_AT_ONCE 2

/*
 * Looks up what [address, address + bytes) is. INVALID_VALUE if it begins in allocated or
 * registered memory and ends beyond that, or lies in the window and isn't allocated. Ordinary
 * memory may be followed by registered memory.
 */
CUresult side_find(uint64_t address, uint64_t bytes, int hint, struct side *s);

/*
 * Sends a copy that nobody has to wait for. If a side is unknown, the answer is awaited all the
 * same: this call must report an address that isn't the device's, and no later one.
 */
CUresult copy_send(const struct request *r, bool unknown);

/* Where a side lies, for those who watch. */
enum paracuda_memory side_memory(const struct side *s);

/* Copies bytes; with `async` the call returns as soon as CUDA allows. */
CUresult copy_bytes(uint64_t dst, int dst_hint, uint64_t src, int src_hint, size_t bytes,
		    CUstream stream, bool async);

/*
 * The end of a copy: one that isn't asynchronous must be done when it returns, if the host can see
 * managed memory change.
 */
CUresult copy_settled(CUresult result, bool managed, CUstream stream, bool async);

/* A two- or three-dimensional copy; its sides have no offsets. */
struct box {
	struct side dst, src;
	uint64_t dst_pitch, dst_slice;
	uint64_t src_pitch, src_slice;
	uint64_t width, height, depth;
};

CUresult copy_box(struct box *b, CUstream stream, bool async);

/* The copy of a descriptor; `source` is SIDE_ANY or SIDE_AT_ONCE. The first is for memory alone. */
CUresult copy_memory(const CUDA_MEMCPY3D *c, int source, CUstream stream, bool async);
CUresult copy_3d(const CUDA_MEMCPY3D *c, int source, CUstream stream, bool async);

#endif
