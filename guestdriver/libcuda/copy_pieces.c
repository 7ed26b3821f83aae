/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of ordinary memory, large: pinned in pieces, so that later ones are pinned while the first move. Pinning
 * costs the guest's kernel more time a page than the device needs to copy it, so that several threads do it
 * where there are processors for them.
 */
#define _GNU_SOURCE
#include "copy_pieces.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "buffer.h"
#include "handle.h"
#include "zz_generated_calls.h"

#define PIECE ((size_t)4 << 20)
#define PIECE_FIRST ((size_t)1 << 20)

/* From here on several threads are worth waking. */
#define SHARED_LEAST (4 * PIECE)

#define HELPERS_MAX 5
#define HELPER_STACK ((size_t)256 << 10)

/* A copy that several threads work on. */
struct job {
	unsigned op;
	uint64_t context, stream;
	uint64_t device;
	uint8_t *host;
	size_t bytes;
	size_t next;		/* what no thread has taken */
	CUresult result;	/* the first failure */
};

/* One job at a time. What follows `lock` is guarded by it: the job, its number, how many helpers are at work. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static struct job *current;
static unsigned long number;
static unsigned busy;

/* Guarded by `turn`. */
static unsigned helpers;
static bool started;

_Static_assert(PIECE / 4096 < PARACUDA_RUNS_PER_MAP, "a piece fits in a MAP, however scattered its pages are");

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
	r->context = j->context;
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

/* One thread: the next piece is pinned while the one before is being copied. Pieces grow. */
static CUresult copy_alone(const struct job *j)
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

/* Takes pieces of a job until none is left, or one has failed. */
static void work(struct job *j)
{
	while (!__atomic_load_n(&j->result, __ATOMIC_RELAXED)) {
		size_t at = __atomic_fetch_add(&j->next, PIECE, __ATOMIC_RELAXED), bytes;
		CUresult none = CUDA_SUCCESS, result;
		struct request r;
		uint32_t map;

		if (at >= j->bytes)
			break;
		bytes = least(j->bytes - at, PIECE);
		result = pin_piece(j->op, j->host + at, bytes, &map);
		if (!result) {
			piece_request(&r, j, map, at, bytes);
			result = channel_call(&r, NULL, 0);
		}
		if (result)
			__atomic_compare_exchange_n(&j->result, &none, result, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
}

static void *help(void *unused)
{
	unsigned long last = 0;

	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		struct job *j;

		while (!current || number == last)
			pthread_cond_wait(&begun, &lock);
		j = current;
		last = number;
		busy++;
		pthread_mutex_unlock(&lock);
		work(j);
		pthread_mutex_lock(&lock);
		if (!--busy)
			pthread_cond_signal(&ended);
	}
	return NULL;
}

/* Starts the helpers, as many as other processors leave room for. They see no signal of the program. */
static void start_helpers(void)
{
	pthread_attr_t attributes;
	sigset_t all, old;
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : CPU_COUNT(&cpus);
	pthread_t thread;

	started = true;
	if (pthread_attr_init(&attributes))
		return;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, HELPER_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (helpers < HELPERS_MAX && (int)helpers < n - 1 && !pthread_create(&thread, &attributes, help, NULL))
		helpers++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
}

static CUresult copy_together(struct job *j)
{
	pthread_mutex_lock(&lock);
	current = j;
	number++;
	pthread_cond_broadcast(&begun);
	pthread_mutex_unlock(&lock);
	work(j);
	pthread_mutex_lock(&lock);
	current = NULL;
	while (busy)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	return j->result;
}

CUresult copy_pieces(unsigned op, uint64_t device, uint8_t *host, size_t bytes, CUstream stream)
{
	struct job j = { .op = op, .context = context_handle(), .stream = number_of(stream), .device = device };
	CUresult result;

	j.host = host;
	j.bytes = bytes;
	/* The stream of each thread is that of its slot. */
	if (bytes < SHARED_LEAST || j.stream == STREAM_PER_THREAD || pthread_mutex_trylock(&turn))
		return channel_synced(copy_alone(&j));
	if (!started)
		start_helpers();
	result = helpers ? copy_together(&j) : copy_alone(&j);
	pthread_mutex_unlock(&turn);
	return channel_synced(result);
}
