/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/arena.h"

#include <errno.h>

#include "base/log.h"
#include "transport/bulk.h"
#include "transport/transport.h"

_Static_assert(sizeof(struct paracuda_arena_header) == PARACUDA_SIZEOF_ARENA_HEADER,
	       "arena header");

struct channel channel;

/* Written atomically. */
static struct {
	bool said; /* the user knows that the device is gone */
} state;

size_t channel_inline_limit(void)
{
	uint64_t limit = channel_policy(&channel.header->inline_limit);

	return limit < bulk_limit() ? limit : bulk_limit();
}

void channel_copied(size_t bytes)
{
	__atomic_fetch_add(&channel.header->copied, (uint32_t)bytes, __ATOMIC_RELAXED);
}

CUresult channel_unavailable(void)
{
	int saved = errno;

	if (!__atomic_exchange_n(&state.said, true, __ATOMIC_RELAXED) &&
	    transport->kick() == ENODEV)
		log_user(DEVICE_IS_GONE);
	errno = saved;
	return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult channel_dead(void)
{
	CUresult sticky =
		(CUresult)__atomic_load_n(&channel.header->sticky_error, __ATOMIC_ACQUIRE);

	if (sticky)
		return sticky;
	return __atomic_load_n(&channel.header->dead, __ATOMIC_ACQUIRE) ? channel_unavailable() :
									  CUDA_SUCCESS;
}

CUresult channel_error(bool take)
{
	CUresult error = channel_dead();

	if (!error && take && __atomic_load_n(&channel.header->async_error, __ATOMIC_RELAXED))
		error = (CUresult)__atomic_exchange_n(&channel.header->async_error, 0,
						      __ATOMIC_ACQUIRE);
	return error;
}

CUresult channel_synced(CUresult result)
{
	return result ? result : channel_error(true);
}
