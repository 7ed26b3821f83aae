/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that have too much in them, or say what may not be said: nothing is written over, and
 * none is sent.
 */
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/zz_generated_commands.h"
#include "fake_worker.h"

/* A request between bytes that must not change. */
static struct {
	uint8_t before[64];
	struct request r;
	uint8_t after[64];
} q;

static void begin(void)
{
	memset(&q, 0xa5, sizeof(q));
	request_init(&q.r, OP_cuCtxSynchronize);
}

static void end(bool fits)
{
	uint8_t untouched[64];

	memset(untouched, 0xa5, sizeof(untouched));
	CHECK(!memcmp(q.before, untouched, sizeof(untouched)) &&
	      !memcmp(q.after, untouched, sizeof(untouched)));
	CHECK(q.r.words <= REQUEST_WORDS && q.r.tails <= REQUEST_TAILS && q.r.maps <= REQUEST_MAPS);
	CHECK_IS(fits, !q.r.refused);
	if (!fits) {
		CHECK_IS(CUDA_ERROR_INVALID_VALUE, channel_call(&q.r, NULL, 0));
		CHECK_IS(CUDA_ERROR_INVALID_VALUE, channel_append(&q.r));
	}
}

static void words(unsigned n)
{
	begin();
	for (unsigned i = 0; i < n; i++)
		request_word(&q.r, i);
	end(n <= REQUEST_WORDS);
}

static void tails(unsigned n)
{
	begin();
	for (unsigned i = 0; i < n; i++)
		request_tail(&q.r, "tail", 4);
	end(n <= REQUEST_TAILS);
	begin();
	for (unsigned i = 0; i < n; i++)
		request_inline(&q.r, "inline", 6);
	end(n <= REQUEST_TAILS);
}

static void maps(unsigned n)
{
	begin();
	for (unsigned i = 0; i < n; i++)
		request_pinned(&q.r, i);
	CHECK_IS(n <= REQUEST_MAPS, !q.r.refused);
	q.r.maps = 0; /* there are none to be given back */
	end(n <= REQUEST_MAPS);
}

/* The last word of a reference has no place. */
static void half_a_reference(void)
{
	begin();
	for (unsigned i = 0; i < REQUEST_WORDS - 1; i++)
		request_word(&q.r, i);
	request_inline(&q.r, "inline", 6);
	end(false);
}

static void refused(void)
{
	uint64_t value;

	CHECK_IS(CUDA_ERROR_INVALID_VALUE, call_cuMemPoolGetAttribute(1, 0, &value));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, call_cuMemPoolGetAttribute(1, 9, &value));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, call_cuMemSetAccess(0, 0, 0, 2));
}

int main(void)
{
	fake_install();
	CHECK_IS(0, cuInit(0));
	for (unsigned n = 0; n <= REQUEST_WORDS + 3; n++)
		words(n);
	for (unsigned n = 0; n <= REQUEST_TAILS + 3; n++)
		tails(n);
	for (unsigned n = 0; n <= REQUEST_MAPS + 3; n++)
		maps(n);
	half_a_reference();
	refused();
	return 0;
}
