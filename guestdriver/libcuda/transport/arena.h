/* SPDX-License-Identifier: Apache-2.0 */
/* The header of the memory that this process shares with its worker, and what both write there. */
#ifndef PARACUDA_ARENA_H
#define PARACUDA_ARENA_H

#include <stdbool.h>

#include "abi/cuda_abi.h"
#include "paracuda_wire.h"

struct channel {
	uint8_t *arena;
	size_t arena_bytes;
	struct paracuda_arena_header *header;
};

extern struct channel channel;

/* A policy of the VM, which the driver keeps in the arena's header. It may change at any time. */
static inline uint64_t channel_policy(const __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Copies of up to this size go through the arena, in both directions; larger ones by reference. */
size_t channel_inline_limit(void);

/*
 * Notes that the library copies payload of the next command; the worker adds it to `bytes_copied`.
 */
void channel_copied(size_t bytes);

/* Whether large payloads are passed by reference, and not in the arena. */
static inline bool channel_maps(void)
{
	return channel_policy(&channel.header->config_flags) & PARACUDA_CONFIG_FLAG_ADDRESS_MAPPING;
}

/* Whether no call may be delayed. */
static inline bool channel_undelayed(void)
{
	return channel_policy(&channel.header->batch_commands) == 1;
}

/* What the user must know when the host's device process has ended. */
#define DEVICE_IS_GONE "the paracuda device is gone: attach it again on the host"

/*
 * The error when the worker is gone. If the whole device is gone, which only the host can change,
 * the user is told, once.
 */
CUresult channel_unavailable(void);

/* The error that ends everything, or 0. */
CUresult channel_dead(void);

/* An error that is due: the sticky one, or with `take` that of an earlier delayed call. */
CUresult channel_error(bool take);

/* The result of a call that synchronises: its own error, else that of a delayed call before it. */
CUresult channel_synced(CUresult result);

#endif
