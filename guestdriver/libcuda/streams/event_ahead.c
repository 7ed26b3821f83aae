/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "streams/event_ahead.h"

#include <pthread.h>

#include "context/zz_generated_calls.h"
#include "streams/capture.h"

/* So many events a program makes before the next ones are made ahead. */
#define MANY 32

/* So often in a row another kind of event is wanted before that is made ahead. */
#define OTHERS 16

static struct {
	pthread_mutex_t lock; /* guards all but `made`; who doesn't get it at once makes its own */
	unsigned made; /* events; written atomically */
	bool asked; /* one is being made ahead, or was */
	struct ticket ticket; /* of the question for it */
	uint64_t context; /* in which it is made: the worker's number */
	unsigned flags;
	unsigned others; /* events that were wanted since and weren't like it */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Takes the answer; 0 if no event could be made. */
static uint64_t answer(void)
{
	uint64_t number;
	CUresult result = channel_wait(&state.ticket, &number, 1);

	state.asked = false;
	return result ? 0 : number;
}

/* Destroys an event that nobody wants. Its context may have ended, and it with that. */
static void give_up(void)
{
	uint64_t number = answer();
	struct request r;

	request_cuEventDestroy_v2(&r, number);
	r.exact = true;
	if (number)
		channel_call(&r, NULL, 0);
}

static void ask(const struct request *r, unsigned flags)
{
	state.context = r->context;
	state.flags = flags;
	state.others = 0;
	state.asked = !channel_send_ahead(r, &state.ticket);
}

/* The event that was made ahead, if it is like the one that r asks for; else 0. */
static uint64_t take(const struct request *r, unsigned flags)
{
	if (!state.asked)
		return 0;
	if (state.context == r->context && state.flags == flags)
		return answer();
	if (++state.others == OTHERS)
		give_up();
	return 0;
}

CUresult event_make(unsigned flags, uint64_t *number)
{
	unsigned made = __atomic_add_fetch(&state.made, 1, __ATOMIC_RELAXED);
	CUresult result;
	struct request r;

	/*
	 * While a stream is captured, each call has an answer of its own. Events of several
	 * processes keep a program from going to a file: none is made that nobody wants.
	 */
	if (made <= MANY || capture_active() || flags & CU_EVENT_INTERPROCESS ||
	    pthread_mutex_trylock(&state.lock))
		return call_EventCreate(number, flags);
	request_EventCreate(&r, flags);
	*number = 0;
	result = channel_error(true);
	if (!result)
		*number = take(&r, flags);
	if (!result && !*number)
		result = call_EventCreate(number, flags);
	if (!state.asked)
		ask(&r, flags);
	pthread_mutex_unlock(&state.lock);
	return result;
}
