/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/bulk.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * First fit over blocks kept in address order. Their list lives here and not in the arena, where the worker
 * could change it.
 */
#define BLOCKS 1024
#define ALIGN 256

struct block {
	uint64_t offset;
	size_t bytes;
	bool taken;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block block[BLOCKS];
static unsigned blocks;
static size_t limit;

void bulk_init(uint64_t offset, size_t bytes)
{
	block[0] = (struct block){ offset, bytes & ~(size_t)(ALIGN - 1), false };
	blocks = 1;
	limit = block[0].bytes / 4;
}

size_t bulk_limit(void)
{
	return limit;
}

static void insert(unsigned at, struct block b)
{
	for (unsigned i = blocks++; i > at; i--)
		block[i] = block[i - 1];
	block[at] = b;
}

static void merge(unsigned at)
{
	block[at].bytes += block[at + 1].bytes;
	blocks--;
	for (unsigned i = at + 1; i < blocks; i++)
		block[i] = block[i + 1];
}

static uint64_t try_take(size_t bytes)
{
	for (unsigned i = 0; i < blocks; i++) {
		struct block *b = &block[i];

		if (b->taken || b->bytes < bytes)
			continue;
		if (b->bytes > bytes && blocks < BLOCKS) {
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
	if (!bytes || bytes > limit)
		return 0;
	pthread_mutex_lock(&lock);
	offset = try_take(bytes);
	pthread_mutex_unlock(&lock);
	return offset;
}

void bulk_give(uint64_t offset)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < blocks; i++) {
		if (block[i].offset != offset)
			continue;
		block[i].taken = false;
		if (i + 1 < blocks && !block[i + 1].taken)
			merge(i);
		if (i && !block[i - 1].taken)
			merge(i - 1);
		break;
	}
	pthread_mutex_unlock(&lock);
}
