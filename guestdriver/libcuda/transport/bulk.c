/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/bulk.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * First fit over ranges in address order. Their list is here and not in the arena, where the worker
 * could change it.
 */
#define RANGES 1024
#define ALIGN 256

struct range {
	uint64_t offset;
	size_t bytes;
	bool taken;
};

static struct {
	pthread_mutex_t lock; /* guards the ranges */
	struct range range[RANGES];
	unsigned ranges;
	size_t limit; /* written by the start alone */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

void bulk_init(uint64_t offset, size_t bytes)
{
	state.range[0] = (struct range){ offset, bytes & ~(size_t)(ALIGN - 1), false };
	state.ranges = 1;
	state.limit = state.range[0].bytes / 4;
}

size_t bulk_limit(void)
{
	return state.limit;
}

static void insert(unsigned at, struct range b)
{
	for (unsigned i = state.ranges++; i > at; i--)
		state.range[i] = state.range[i - 1];
	state.range[at] = b;
}

static void merge(unsigned at)
{
	state.range[at].bytes += state.range[at + 1].bytes;
	state.ranges--;
	for (unsigned i = at + 1; i < state.ranges; i++)
		state.range[i] = state.range[i + 1];
}

static uint64_t try_take(size_t bytes)
{
	for (unsigned i = 0; i < state.ranges; i++) {
		struct range *b = &state.range[i];

		if (b->taken || b->bytes < bytes)
			continue;
		if (b->bytes > bytes && state.ranges < RANGES) {
			insert(i + 1, (struct range){ b->offset + bytes, b->bytes - bytes, false });
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
	for (unsigned i = 0; i < state.ranges; i++) {
		if (state.range[i].offset != offset)
			continue;
		state.range[i].taken = false;
		if (i + 1 < state.ranges && !state.range[i + 1].taken)
			merge(i);
		if (i && !state.range[i - 1].taken)
			merge(i - 1);
		break;
	}
	pthread_mutex_unlock(&state.lock);
}
