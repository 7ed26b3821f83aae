/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of ordinary memory: pinned in parts, so that some pages are pinned while others are
 * copied. Several threads are no faster: in User Mode Linux, where pinning costs most, they get in
 * each other's way.
 */
#define _GNU_SOURCE
#include "copies/copy_parts.h"

#include "base/least.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "transport/buffer.h"
#include "transport/slot.h"

/*
 * Parts grow: while the first one is pinned, the GPU waits. Each part is a system call, and for
 * staged memory also a switch of the GPU between the processes of mover and worker. After the first
 * there are two parts of each size: where pages are scattered, driver, worker and mover together
 * take nearly as long for a part as the GPU, which would wait for one that is twice as large as the
 * last.
 */
#define PART ((size_t)8 << 20)
#define PART_FIRST ((size_t)1 << 20)
#define PART_LEAST ((size_t)1 << 20)

/*
 * An answer is asked for after so many bytes, and at most two are outstanding: so at most twice as
 * much is pinned.
 */
#define GROUP ((size_t)32 << 20)

_Static_assert(PART / 4096 < PARACUDA_RUNS_PER_MAP,
	       "a part fits in a MAP, however scattered its pages are");

/* A copy. */
struct job {
	unsigned op;
	uint64_t stream;
	uint64_t device;
	uint8_t *host;
	size_t bytes;

	size_t loose; /* bytes of parts that were sent, and for which no answer was asked yet */
	bool asked; /* an answer is outstanding */
	struct ticket ticket;
};

static CUresult pin_part(const struct job *j, size_t at, size_t bytes, uint32_t *map)
{
	unsigned flags =
		(j->op == OP_CopyHtoD ? 0 : PARACUDA_MAP_FLAG_WRITE) | PARACUDA_MAP_FLAG_ONESHOT;
	CUresult result = map_memory(j->host + at, bytes, flags, map);

	return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

static void part_request(struct request *r, const struct job *j, uint32_t map, size_t at,
			 size_t bytes, unsigned flags)
{
	copy_request(r, j->op, j->device + at, argument_map(map, 0, bytes), bytes, j->stream,
		     flags);
}

/* Copies one part, answered by itself. */
static CUresult copy_one(const struct job *j, size_t at, size_t bytes)
{
	struct request r;
	uint32_t map;
	CUresult result = pin_part(j, at, bytes, &map);

	if (result)
		return result;
	/*
	 * A copy to the device may be answered as soon as its source was read; one to the host when
	 * all has arrived.
	 */
	part_request(&r, j, map, at, bytes, j->op == OP_CopyHtoD ? 0 : PARACUDA_COPY_FLAG_BLOCKING);
	request_pinned(&r, map);
	return channel_call(&r, NULL, 0);
}

/* Waits for the answer that is outstanding. */
static CUresult await(struct job *j)
{
	if (!j->asked)
		return CUDA_SUCCESS;
	j->asked = false;
	return channel_wait(&j->ticket, NULL, 0);
}

/*
 * Waits for the outstanding answer, and asks for one to the parts sent since, even after an error:
 * the call must not return while the host's memory is still written to.
 */
static CUresult ask(struct job *j)
{
	CUresult result = await(j), sent;
	struct request r;

	if (!j->loose)
		return result;
	request_JOIN(&r);
	r.context = 0;
	r.always = true;
	r.payload = j->loose;
	j->loose = 0;
	sent = channel_send(&r, &j->ticket);
	j->asked = !sent;
	return result ? result : sent;
}

/* Waits for all that was sent. */
static CUresult settle(struct job *j)
{
	CUresult result = ask(j), rest = await(j);

	return result ? result : rest;
}

static CUresult send_part(struct job *j, size_t at, size_t bytes)
{
	CUresult result;
	struct request r;
	uint32_t map;

	result = pin_part(j, at, bytes, &map);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && (j->loose || j->asked)) {
		/* This very copy may hold the pinned memory. */
		result = settle(j);
		if (!result)
			result = pin_part(j, at, bytes, &map);
	}
	if (result)
		return result;
	part_request(&r, j, map, at, bytes, PARACUDA_COPY_FLAG_PART);
	result = channel_append(&r);
	if (!result)
		j->loose += bytes;
	return result;
}

static CUresult copy_job(struct job *j)
{
	bool alone =
		j->bytes <= PART_FIRST || slot_shared(); /* parts are told apart by their slot */
	CUresult result = channel_error(true), rest;
	size_t part = PART_FIRST, most = PART;
	bool second = true; /* there is one part of the first size */

	for (size_t at = 0; !result && at < j->bytes;) {
		size_t bytes = least(part, j->bytes - at);

		result = alone ? copy_one(j, at, bytes) : send_part(j, at, bytes);
		if (result == CUDA_ERROR_OUT_OF_MEMORY && bytes > PART_LEAST) {
			part = most = bytes / 2;
			result = CUDA_SUCCESS;
			continue;
		}
		at += bytes;
		if (second)
			part = least(2 * part, most);
		second = !second;
		if (!result && j->loose >= GROUP)
			result = ask(j);
	}
	rest = settle(j);
	return result ? result : rest;
}

CUresult copy_parts(unsigned op, uint64_t device, uint8_t *host, size_t bytes, CUstream stream)
{
	struct job j = { .op = op,
			 .stream = number_of(stream),
			 .device = device,
			 .host = host,
			 .bytes = bytes };

	return channel_synced(copy_job(&j));
}
