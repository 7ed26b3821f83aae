/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/request.h"

/* Notes bytes that travel behind the words; `word` gets the reference to them, if it isn't -1. */
static void add_tail(struct request *r, const void *data, size_t bytes, int word)
{
	if (r->tails < REQUEST_TAILS)
		r->tail[r->tails++] = (struct tail){ data, bytes, word };
	else
		r->refused = true;
}

void request_tail(struct request *r, const void *data, size_t bytes)
{
	if (bytes)
		add_tail(r, data, bytes, -1);
}

void request_inline(struct request *r, const void *data, size_t bytes)
{
	add_tail(r, data, bytes, r->words);
	r->inlined += (uint32_t)bytes;
	request_word(r, 0); /* filled in when the command is written */
	request_word(r, bytes);
}

void request_buffer(struct request *r, unsigned kind, uint64_t value, uint64_t bytes)
{
	request_word(r, (uint64_t)kind << 56 | value);
	request_word(r, bytes);
}
