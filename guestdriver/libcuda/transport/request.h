/* SPDX-License-Identifier: Apache-2.0 */
/* A command while it is put together. */
#ifndef PARACUDA_REQUEST_H
#define PARACUDA_REQUEST_H

#include <stdbool.h>
#include <string.h>

#include "abi/cuda_abi.h"
#include "paracuda_wire.h"

#define REQUEST_WORDS 16
#define REQUEST_TAILS 4
#define REQUEST_MAPS 4

/* Bytes that travel behind the words of a command. */
struct tail {
	const void *data;
	size_t bytes;
	int word; /* index of the word that gets the reference to them, -1 for none */
};

/*
 * A command to be sent. Begin with request_begin. If there is no room for what is appended, sending
 * fails with CUDA_ERROR_INVALID_VALUE.
 */
struct request {
	uint16_t op;
	uint16_t words;
	uint16_t tails;
	uint16_t maps;
	bool exact; /* its result must not be replaced by the error of an earlier delayed call */
	bool always; /* it is sent even in a dead context */
	bool sleeps; /* its thread is to sleep early while it waits, as its context asks */
	bool refused; /* it is invalid or too large, and can't be sent */
	uint32_t inlined; /* bytes of buffer arguments among the tails */
	uint64_t payload; /* bytes that the call copies: its answer takes longer */
	uint64_t context;
	uint64_t word[REQUEST_WORDS];
	struct tail tail[REQUEST_TAILS];
	uint32_t map[REQUEST_MAPS]; /* pinned for this command alone */
};

/* An empty request in a context of the worker's, 0 for none. */
static inline void request_begin(struct request *r, unsigned op, uint64_t context, bool sleeps)
{
	r->op = (uint16_t)op;
	r->inlined = 0;
	r->words = 0;
	r->tails = 0;
	r->maps = 0;
	r->exact = false;
	r->always = false;
	r->refused = false;
	r->sleeps = sleeps;
	r->payload = 0;
	r->context = context;
}

static inline void request_word(struct request *r, uint64_t word)
{
	if (r->words < REQUEST_WORDS)
		r->word[r->words++] = word;
	else
		r->refused = true;
}

/* Appends so many bytes as words. */
static inline void request_bytes(struct request *r, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = 0;

		memcpy(&word, (const uint8_t *)bytes + i, n - i < 8 ? n - i : 8);
		request_word(r, word);
	}
}

/* Appends bytes after the words, not referred to by any. */
void request_tail(struct request *r, const void *data, size_t bytes);

/* Appends a buffer argument (two words) whose bytes travel in the command. */
void request_inline(struct request *r, const void *data, size_t bytes);

/* Appends a buffer argument of the given kind. */
void request_buffer(struct request *r, unsigned kind, uint64_t value, uint64_t bytes);

/*
 * A buffer argument: bytes that travel in the command, or a reference of the given kind. Without
 * both, there is no argument.
 */
struct argument {
	const void *inlined;
	unsigned kind;
	bool pinned; /* of kind MAP: for this command alone */
	uint64_t value, bytes;
};

static inline struct argument argument_inline(const void *data, size_t bytes)
{
	return (struct argument){ .inlined = data, .bytes = bytes };
}

static inline struct argument argument_bulk(uint64_t offset, uint64_t bytes)
{
	return (struct argument){ .kind = PARACUDA_BUFFER_BULK, .value = offset, .bytes = bytes };
}

static inline struct argument argument_map(uint32_t id, uint64_t offset, uint64_t bytes)
{
	return (struct argument){ .kind = PARACUDA_BUFFER_MAP,
				  .value = (uint64_t)id << 32 | offset,
				  .bytes = bytes };
}

static inline bool argument_given(struct argument a)
{
	return a.inlined || a.kind != PARACUDA_BUFFER_NONE;
}

/*
 * Notes memory that was pinned for this command alone: it is given back if the command isn't sent.
 */
static inline void request_pinned(struct request *r, uint32_t map)
{
	if (r->maps < REQUEST_MAPS)
		r->map[r->maps++] = map;
	else
		r->refused = true;
}

static inline void request_argument(struct request *r, struct argument a)
{
	if (a.pinned)
		request_pinned(r, (uint32_t)(a.value >> 32));
	if (a.inlined)
		request_inline(r, a.inlined, a.bytes);
	else
		request_buffer(r, a.kind, a.value, a.bytes);
}

#endif
