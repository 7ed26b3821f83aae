/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that are made before the program asks for them. PyTorch makes some for each collective: it
 * would wait for the worker each time, and for all that was queued before.
 */
#ifndef PARACUDA_EVENT_AHEAD_H
#define PARACUDA_EVENT_AHEAD_H

#include "context/context.h"

/*
 * Makes an event in the current context: the one that was made ahead, if it is like that. Then has
 * the next one made, if the program makes many.
 */
CUresult event_make(unsigned flags, uint64_t *number);

#endif
