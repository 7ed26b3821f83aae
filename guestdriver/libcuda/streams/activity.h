/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that a program gives to the GPU, for those who watch it (paracuda_table.h). Usually nobody
 * does.
 */
#ifndef PARACUDA_ACTIVITY_H
#define PARACUDA_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>

#include "paracuda_table.h"

extern const struct paracuda_watcher *activity_watcher;

static inline bool activity_watched(void)
{
	return __builtin_expect(__atomic_load_n(&activity_watcher, __ATOMIC_ACQUIRE) != NULL, 0);
}

/* Watched work, which is queued between its beginning and its end. */
struct activity {
	const struct paracuda_watcher *watcher; /* NULL: it isn't watched */
	void *mark;
};

struct activity activity_begin(const struct paracuda_work *work);
void activity_end(struct activity a, int result);

/* Evaluates `give`, a call that gives work to the GPU, and watches it. */
#define WATCH(give, ...)                                                                          \
	({                                                                                        \
		struct activity activity_ = { 0 };                                                \
		CUresult watched_;                                                                \
		if (activity_watched())                                                           \
			activity_ = activity_begin(&(const struct paracuda_work){ __VA_ARGS__ }); \
		watched_ = (give);                                                                \
		if (__builtin_expect(activity_.watcher != NULL, 0))                               \
			activity_end(activity_, watched_);                                        \
		watched_;                                                                         \
	})

void activity_watch(const struct paracuda_watcher *watcher);

#endif
