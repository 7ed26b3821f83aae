/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/bulk.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * First fit over blocks kept in address order. Their list lives here and not in the arena, where
 * the worker could change it.
 */
#define BLOCKS 1024
#define ALIGN 256

struct block {
	uint64_t offset;
	size_t bytes;
	bool taken;
};

static struct {
	pthread_mutex_t lock; /* guards the blocks */
	struct block block[BLOCKS];
	unsigned blocks;
	size_t limit; /* written by the start alone */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

void bulk_init(uint64_t offset, size_t bytes)
{
	state.block[0] = (struct block){ offset, bytes & ~(size_t)(ALIGN - 1), false };
	state.blocks = 1;
	state.limit = state.block[0].bytes / 4;
}

size_t bulk_limit(void)
{
	return state.limit;
}

static void insert(unsigned at, struct block b)
{
	for (unsigned i = state.blocks++; i > at; i--)
		state.block[i] = state.block[i - 1];
	state.block[at] = b;
}

static void merge(unsigned at)
{
	state.block[at].bytes += state.block[at + 1].bytes;
	state.blocks--;
	for (unsigned i = at + 1; i < state.blocks; i++)
		state.block[i] = state.block[i + 1];
}

static uint64_t try_take(size_t bytes)
{
	for (unsigned i = 0; i < state.blocks; i++) {
		struct block *b = &state.block[i];

		if (b->taken || b->bytes < bytes)
			continue;
		if (b->bytes > bytes && state.blocks < BLOCKS) {
			insert(i + 1, (struct block){ b->offset + bytes, b->bytes - bytes, false });
			b->bytes = bytes;
		}
		b->taken = true;
		return b->offset;
	}
	return 0;
}

uint64_t bulk_take(size_t bytes)
{
	uint64_t offset;

	bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (!bytes || bytes > state.limit)
		return 0;
	pthread_mutex_lock(&state.lock);
	offset = try_take(bytes);
	pthread_mutex_unlock(&state.lock);
	return offset;
}

void bulk_give(uint64_t offset)
{
	pthread_mutex_lock(&state.lock);
	for (unsigned i = 0; i < state.blocks; i++) {
		if (state.block[i].offset != offset)
			continue;
		state.block[i].taken = false;
		if (i + 1 < state.blocks && !state.block[i + 1].taken)
			merge(i);
		if (i && !state.block[i - 1].taken)
			merge(i - 1);
		break;
	}
	pthread_mutex_unlock(&state.lock);
}
