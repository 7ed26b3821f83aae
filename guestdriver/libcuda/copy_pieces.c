/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of ordinary memory, large: pinned in pieces, so that each is pinned while the one before it moves. Several
 * threads are no faster: in User Mode Linux, where pinning is dearest, they get in each other's way.
 */
#define _GNU_SOURCE
#include "copy_pieces.h"

#include "buffer.h"
#include "handle.h"
#include "zz_generated_calls.h"

/* Pieces grow from the first, which nothing hides. */
#define PIECE ((size_t)4 << 20)
#define PIECE_FIRST ((size_t)1 << 20)

_Static_assert(PIECE / 4096 < PARACUDA_RUNS_PER_MAP, "a piece fits in a MAP, however scattered its pages are");

/* A copy. */
struct job {
	unsigned op;
	uint64_t stream;
	uint64_t device;
	uint8_t *host;
	size_t bytes;
};

static unsigned pin_flags(unsigned op)
{
	return (op == OP_CopyHtoD ? 0 : PARACUDA_MAP_FLAG_WRITE) | PARACUDA_MAP_FLAG_ONESHOT;
}

static CUresult pin_piece(unsigned op, const uint8_t *host, size_t bytes, uint32_t *map)
{
	CUresult result = map_memory(host, bytes, pin_flags(op), map);

	return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

static void piece_request(struct request *r, const struct job *j, uint32_t map, size_t at, size_t bytes)
{
	request_init(r, j->op);
	request_word(r, j->device + at);
	request_buffer(r, PARACUDA_BUFFER_MAP, (uint64_t)map << 32, bytes);
	request_word(r, bytes);
	request_word(r, j->stream);
	/* To the device the source must only have been read; to the host all must have arrived. */
	request_word(r, j->op == OP_CopyHtoD ? 0 : PARACUDA_COPY_FLAG_BLOCKING);
}

/* A map that no command will refer to. */
static void unpin_piece(uint32_t map)
{
	struct request r;

	request_init(&r, PARACUDA_OP_UNMAP);
	request_word(&r, map);
	channel_post(&r);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The next piece is pinned while the one before is being copied. */
static CUresult copy_job(const struct job *j)
{
	size_t at = 0, bytes = least(j->bytes, PIECE_FIRST);
	uint32_t map;
	CUresult result = pin_piece(j->op, j->host, bytes, &map);

	while (!result && bytes) {
		size_t then = at + bytes, more = least(j->bytes - then, least(2 * bytes, PIECE));
		CUresult pinned = CUDA_SUCCESS;
		uint32_t next = 0;
		struct request r;
		struct ticket t;

		piece_request(&r, j, map, at, bytes);
		result = channel_send(&r, &t);
		if (result)
			break;
		if (more)
			pinned = pin_piece(j->op, j->host + then, more, &next);
		result = channel_wait(&t, NULL, 0);
		if (result && more && !pinned)
			unpin_piece(next);
		if (!result)
			result = pinned;
		at = then;
		bytes = more;
		map = next;
	}
	return result;
}

CUresult copy_pieces(unsigned op, uint64_t device, uint8_t *host, size_t bytes, CUstream stream)
{
	struct job j = { op, number_of(stream), device, host, bytes };

	return channel_synced(copy_job(&j));
}
