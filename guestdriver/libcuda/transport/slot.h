/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion slots. A thread owns one as long as it lives. When nearly all are taken, further
 * threads share the last ones, and take turns. PARACUDA_HOST_SLOT is nobody's: host functions are
 * announced in it. Nor is SLOT_AHEAD, which has the answer to a question that was sent before its
 * answer is needed.
 */
#ifndef PARACUDA_SLOT_H
#define PARACUDA_SLOT_H

#include "base/state.h"
#include "paracuda_wire.h"

#define SLOTS_SHARED 16
#define SLOTS_OWNED (PARACUDA_SLOT_COUNT - SLOTS_SHARED - 2)
#define SLOT_AHEAD (SLOTS_OWNED + SLOTS_SHARED)

/* The calling thread's slot. */
int slot_of_thread(void);

/* Whether other threads use the calling thread's slot, too. */
bool slot_shared(void);

/* Whether only one thread has a slot: an estimate, as threads come and go. */
bool slot_alone(void);

/* Begins a call in the slot: the sequence number for it. Waits while a sharer is using it. */
uint32_t slot_begin(int slot);

/* Ends the call. */
void slot_end(int slot);

/* Gives back the slot of a thread that ends and owns it. */
void slot_leave(struct thread *t);

#endif
