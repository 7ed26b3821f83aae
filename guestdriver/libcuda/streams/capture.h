/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. The host's driver captures; it knows nothing of this process's threads, so what
 * CUDA forbids threads to do during captures is checked here.
 */
#ifndef PARACUDA_CAPTURE_H
#define PARACUDA_CAPTURE_H

#include <stdbool.h>

#include "base/state.h"

/* How many captures have begun and not ended in this process. */
extern unsigned capture_count;

/* While there is any, no call is delayed: its error belongs to it. */
static inline bool capture_active(void)
{
	return __atomic_load_n(&capture_count, __ATOMIC_RELAXED) != 0;
}

/* Whether a stream is being captured, and into which graph; 0: none, or it isn't known. */
bool capture_of(CUstream stream);
uint64_t capture_graph(CUstream stream);

/*
 * What calls return that aren't allowed on a stream that is being captured: they spoil the capture.
 */
CUresult capture_question(CUstream stream);

/*
 * What a call about a stream returns before anything else is checked: INVALIDATED if its capture
 * was spoiled; for the legacy stream IMPLICIT, which spoils captures, while a stream that it waits
 * for is captured.
 */
CUresult capture_usable(CUstream stream);

/*
 * The result of a call that this library refuses: capture_usable's error, if there is one, goes
 * first.
 */
CUresult capture_refuse(CUstream stream, CUresult result);

/* The result of a call that fails after all that: it spoils the capture of its stream. */
CUresult capture_spoil(CUstream stream, CUresult result);

/*
 * What a call that is unsafe during captures returns: 0, or STREAM_CAPTURE_UNSUPPORTED, which ends
 * the captures.
 */
CUresult capture_unsafe(void);

/* Calls that are unsafe during captures begin with this. */
#define ENTER_SAFE()                                 \
	do {                                         \
		CUresult unsafe_ = capture_unsafe(); \
		if (unsafe_)                         \
			return unsafe_;              \
	} while (0)

/* The same for one that waits for everything in the context. */
CUresult capture_everything(void);

/* CUstreamCaptureMode */

/* The calling thread has begun a capture. */
CUresult capture_enter(CUstream stream, int mode);

/* Whether another thread began a capture, which alone may end it, unless its mode is relaxed. */
bool capture_is_others(CUstream stream);

/* A capture, a stream or a context ends, and with it its captures. */
void capture_forget_stream(CUstream stream);
void capture_forget_context(const struct context *c);

#endif
