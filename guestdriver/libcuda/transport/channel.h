/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel to this process's worker: commands go out through the ring, answers come back in
 * slots (docs/protocol.md). Everything that the worker writes is checked before it is used.
 */
#ifndef PARACUDA_CHANNEL_H
#define PARACUDA_CHANNEL_H

#include "transport/arena.h"
#include "transport/request.h"

/*
 * Begins or ends a time in which no call is delayed, so that each returns its own error. Such times
 * may overlap.
 */
void channel_await_all(bool begin);

/* Opens the channel of a process that uses this device first. Returns 0 or an errno. */
int channel_open(unsigned int gpu);

/* A call whose answer is awaited. */
struct ticket {
	int slot;
	uint32_t seq;
	uint64_t payload;
	bool sleeps;
};

/* Gives back what was pinned for a command that isn't sent. */
void channel_drop(const struct request *r);

/* Sends a command that nobody waits for. Its errors appear later. */
CUresult channel_post(const struct request *r);

/*
 * Sends a command that nobody waits for, even if an error is due. It is the only function that may
 * be called between channel_send and channel_wait.
 */
CUresult channel_append(const struct request *r);

/* Sends a command and returns; channel_wait must follow on the same thread. */
CUresult channel_send(const struct request *r, struct ticket *t);

/* Waits for the answer and copies up to `outs` of its words (those that it hasn't are 0). */
CUresult channel_wait(struct ticket *t, uint64_t *out, unsigned outs);

/*
 * channel_send of a question whose answer nobody waits for yet, on SLOT_AHEAD. Only one such is
 * under way at a time: the caller sees to that. It takes no error that is due.
 */
CUresult channel_send_ahead(const struct request *r, struct ticket *t);

/* channel_send and channel_wait. */
CUresult channel_call(const struct request *r, uint64_t *out, unsigned outs);

/* A thread ends: makes the worker forget it, and frees its slot. */
struct thread;
void channel_leave(struct thread *t);

#endif
