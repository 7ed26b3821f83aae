/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/output.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "transport/arena.h"

/* Written by who takes an answer, under the lock. */
static struct {
	pthread_mutex_t lock;
	uint32_t tail;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void copy_out(uint8_t *to, uint32_t from, size_t bytes)
{
	const uint8_t *ring = channel.arena + PARACUDA_OUTPUT;
	size_t at = from % PARACUDA_OUTPUT_BYTES;
	size_t first = bytes < PARACUDA_OUTPUT_BYTES - at ? bytes : PARACUDA_OUTPUT_BYTES - at;

	memcpy(to, ring + at, first);
	memcpy(to + first, ring, bytes - first);
}

/* Takes one record; false when there is none, or none that makes sense. */
static bool take_record(uint32_t head)
{
	struct paracuda_output_record record;
	uint8_t text[4096];
	uint32_t there = head - state.tail;
	uint32_t left, position;
	FILE *stream;

	if (there < sizeof(record) || there > PARACUDA_OUTPUT_BYTES)
		return false;
	copy_out((uint8_t *)&record, state.tail, sizeof(record));
	if (record.bytes > there - sizeof(record) || (record.fd != 1 && record.fd != 2))
		return false;
	/*
	 * As with NVIDIA's driver: through the program's own streams, in order with what it prints
	 * itself, and flushed.
	 */
	stream = record.fd == 1 ? stdout : stderr;
	position = state.tail + (uint32_t)sizeof(record);
	for (left = record.bytes; left;) {
		uint32_t n = left < sizeof(text) ? left : (uint32_t)sizeof(text);

		copy_out(text, position, n);
		fwrite(text, 1, n, stream);
		position += n;
		left -= n;
	}
	fflush(stream);
	state.tail += (uint32_t)sizeof(record) + ((record.bytes + 7) & ~7u);
	if (head - state.tail > there) /* the record's padding would end beyond the head */
		state.tail = head;
	return true;
}

void output_drain(void)
{
	struct paracuda_arena_header *h = channel.header;
	uint32_t head = __atomic_load_n(&h->output_head, __ATOMIC_ACQUIRE);
	int saved;

	if (head == __atomic_load_n(&h->output_tail, __ATOMIC_RELAXED))
		return;
	saved = errno;
	pthread_mutex_lock(&state.lock);
	head = __atomic_load_n(&h->output_head, __ATOMIC_ACQUIRE);
	while (take_record(head))
		;
	state.tail = head;
	__atomic_store_n(&h->output_tail, state.tail, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&state.lock);
	errno = saved;
}
