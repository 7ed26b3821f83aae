/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only calls upward in this library (see layers.txt): a lower room calls a hook that it
 * declares, and here the hooks are connected with the rooms above.
 */
#include "exports/hooks.h"

#include "addresses/memory_map.h"
#include "context/handle.h"
#include "green/green.h"
#include "hostmemory/host_memory.h"
#include "sharing/ipc.h"
#include "streams/capture.h"
#include "transport/channel.h"

static void context_ending(struct context *c)
{
	green_retire_all(c);
	storage_destroy(c);
	if (context_alive(c))
		host_memory_forget_context(c);
}

static void context_ended(struct context *c)
{
	capture_forget_context(c);
	handle_forget_context(c);
	ipc_forget_context(c);
	memory_forget_context(c);
}

static const struct context_hooks context_hooks = {
	.ending = context_ending,
	.ended = context_ended,
};

void hooks_set(void)
{
	thread_at_exit(channel_leave);
	context_set_hooks(&context_hooks);
}
