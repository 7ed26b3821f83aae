/* SPDX-License-Identifier: Apache-2.0 */
#include "streams/activity.h"

#include "streams/capture.h"

const struct paracuda_watcher *activity_watcher;

/* The work of a watcher itself isn't watched, nor are parts of watched work. */
static __thread bool inside;

void activity_watch(const struct paracuda_watcher *watcher)
{
	__atomic_store_n(&activity_watcher, watcher, __ATOMIC_RELEASE);
}

struct activity activity_begin(const struct paracuda_work *work)
{
	struct activity a = { __atomic_load_n(&activity_watcher, __ATOMIC_ACQUIRE), NULL };

	if (!a.watcher || inside || capture_active())
		return (struct activity){ 0 };
	inside = true;
	a.mark = a.watcher->begin(work);
	if (!a.mark) {
		a.watcher = NULL;
		inside = false;
	}
	return a;
}

void activity_end(struct activity a, int result)
{
	a.watcher->end(a.mark, result);
	inside = false;
}
