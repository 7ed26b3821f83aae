/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the library may be used, the thread that uses it, and the checks with which every
 * exported function begins.
 */
#ifndef PARACUDA_STATE_H
#define PARACUDA_STATE_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum library_state {
	STATE_NONE, /* before cuInit */
	STATE_READY,
	STATE_FORKED, /* a child of a process that had called cuInit: CUDA can't be used in it */
	STATE_ENDED, /* the process is exiting */
};

extern int library_state;

/* 0 when the library may be used, else what every call returns. */
static inline CUresult state_check(void)
{
	switch (__atomic_load_n(&library_state, __ATOMIC_ACQUIRE)) {
	case STATE_READY:
		return CUDA_SUCCESS;
	case STATE_ENDED:
		return CUDA_ERROR_DEINITIALIZED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
}

/* One per thread that used the library. Each field is used only by the room that it names. */
struct thread {
	bool registered; /* thread_exit will run */
	uint64_t stream; /* what NULL stands for in this call: 0, or 2 in per-thread variants */

	/* transport/slot.c */
	int slot; /* completion slot + 1, 0 for none yet */
	bool shared; /* the slot is used by other threads too */

	/* context/context.c */
	struct context **stack; /* current contexts, the last on top */
	unsigned depth, room;

	/* streams/capture.c */
	int capture_mode; /* of cuThreadExchangeStreamCaptureMode */
};

/* The calling thread, registered for thread_exit. */
struct thread *thread_self(void);

/*
 * Sets what a thread does when it ends while the library may be used. Called once, before any
 * thread is registered.
 */
void thread_at_exit(void (*hook)(struct thread *t));

extern _Thread_local struct thread thread_own __attribute__((visibility("hidden")));

/* The calling thread without registering it. */
static inline struct thread *thread_peek(void)
{
	return &thread_own;
}

/* The stream that a NULL stands for. */
static inline CUstream thread_stream(CUstream stream)
{
	return stream ? stream : (CUstream)(uintptr_t)thread_peek()->stream;
}

/* Returns the state's error unless the library is ready. */
#define ENTER()                                  \
	do {                                     \
		CUresult state_ = state_check(); \
		if (state_)                      \
			return state_;           \
	} while (0)

#endif
