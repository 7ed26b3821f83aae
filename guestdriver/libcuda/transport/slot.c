/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/slot.h"

#include <pthread.h>

static struct {
	pthread_mutex_t lock; /* guards used, hint and sharers, and writes of taken */
	bool used[SLOTS_OWNED];
	unsigned hint, sharers;
	unsigned taken; /* threads with a slot of their own; read without the lock */
	pthread_mutex_t turn[SLOTS_SHARED]; /* held from a call's beginning to its end */
	uint32_t sequence[PARACUDA_SLOT_COUNT]; /* written by the owner, or who has the turn */
} state = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.turn = { [0 ... SLOTS_SHARED - 1] = PTHREAD_MUTEX_INITIALIZER },
};

static bool is_shared(int slot)
{
	return slot >= SLOTS_OWNED && slot < SLOTS_OWNED + SLOTS_SHARED;
}

int slot_of_thread(void)
{
	struct thread *t = thread_self();

	if (t->slot)
		return t->slot - 1;
	pthread_mutex_lock(&state.lock);
	for (unsigned i = 0; i < SLOTS_OWNED && !t->slot; i++) {
		unsigned s = (state.hint + i) % SLOTS_OWNED;

		if (!state.used[s]) {
			state.used[s] = true;
			__atomic_store_n(&state.taken, state.taken + 1, __ATOMIC_RELAXED);
			t->slot = (int)s + 1;
			state.hint = s + 1;
		}
	}
	if (!t->slot) {
		t->slot = SLOTS_OWNED + (int)(state.sharers++ % SLOTS_SHARED) + 1;
		t->shared = true;
	}
	pthread_mutex_unlock(&state.lock);
	return t->slot - 1;
}

bool slot_shared(void)
{
	return is_shared(slot_of_thread());
}

bool slot_alone(void)
{
	return __atomic_load_n(&state.taken, __ATOMIC_RELAXED) <= 1;
}

uint32_t slot_begin(int slot)
{
	if (is_shared(slot))
		pthread_mutex_lock(&state.turn[slot - SLOTS_OWNED]);
	return ++state.sequence[slot];
}

void slot_end(int slot)
{
	if (is_shared(slot))
		pthread_mutex_unlock(&state.turn[slot - SLOTS_OWNED]);
}

void slot_leave(struct thread *t)
{
	pthread_mutex_lock(&state.lock);
	state.used[t->slot - 1] = false;
	__atomic_store_n(&state.taken, state.taken - 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&state.lock);
}
