/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/ticks.h"
#include "fake_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices/device.h"
#include "fake_device.h"
#include "fake_maps.h"
#include "transport/channel.h"
#include "transport/transport.h"

#define ARENA_BYTES ((size_t)4 << 20)

struct fake fake = {
	.devices = 1, .driver_version = 13000, .function_threads = 1024, .function_bytes = 49152
};

static uint8_t *arena;
static struct paracuda_arena_header *header;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t worker_wake = PTHREAD_COND_INITIALIZER, guest_wake = PTHREAD_COND_INITIALIZER;
static bool kicked;

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void fake_count(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

uint8_t *fake_arena(void)
{
	return arena;
}

void fake_answer(unsigned slot, uint32_t seq, int result, const uint64_t *word, unsigned words)
{
	struct paracuda_slot *s =
		(struct paracuda_slot *)(arena + PARACUDA_SLOTS + slot * PARACUDA_SLOT_BYTES);

	s->result = result;
	s->words = words;
	if (words)
		memcpy(s->word, word, words * 8);
	__atomic_store_n(&s->done, seq, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	fake_count(&fake.replies);
	if (load(&header->sleepers)) {
		pthread_mutex_lock(&lock);
		pthread_cond_broadcast(&guest_wake);
		pthread_mutex_unlock(&lock);
	}
}

/* Takes one command at `consumed`; false when what is there can't be one. */
static bool take(uint32_t position)
{
	const uint8_t *at = arena + PARACUDA_RING + position % PARACUDA_RING_BYTES;
	struct paracuda_command c;
	uint64_t words[30] = { 0 };
	unsigned count = 0;
	int result;

	memcpy(&c, at, sizeof(c));
	if (c.size < sizeof(c) || c.size % 8 ||
	    c.size > PARACUDA_RING_BYTES - position % PARACUDA_RING_BYTES) {
		fprintf(stderr, "fake worker: a command of %u bytes at %u\n", c.size, position);
		abort();
	}
	fake_count(&fake.commands);
	if (c.op < sizeof(fake.ops) / sizeof(fake.ops[0]))
		fake_count(&fake.ops[c.op]);
	if (c.op == PARACUDA_OP_NOP) {
		fake_count(&fake.nops);
	} else if (!fake.hang) {
		result = fake_execute(&c, at, words, &count);
		if (!(c.flags & PARACUDA_COMMAND_FLAG_REPLY)) {
			int error = __atomic_exchange_n(&fake.post_error, 0, __ATOMIC_RELAXED);

			result = error ? error : result;
		}
		if (result == FAKE_LATER)
			;
		else if (c.flags & PARACUDA_COMMAND_FLAG_REPLY)
			fake_answer(c.slot, c.seq, result, words, count);
		else if (result)
			__atomic_store_n(&header->async_error, (uint32_t)result, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&header->consumed, position + c.size, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

static void sleep_until_kicked(void)
{
	__atomic_store_n(&header->worker_sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (load(&header->appended) != header->consumed ||
	    fake_host_functions(load(&header->host_done))) {
		__atomic_store_n(&header->worker_sleeping, 0, __ATOMIC_SEQ_CST);
		return;
	}
	pthread_mutex_lock(&lock);
	while (!kicked && !load(&header->dead))
		pthread_cond_wait(&worker_wake, &lock);
	kicked = false;
	pthread_mutex_unlock(&lock);
}

static void *serve(void *unused)
{
	unsigned idle = 0;

	(void)unused;
	while (!load(&header->dead)) {
		uint32_t consumed = header->consumed;
		uint32_t end = load(&header->appended);
		/*
		 * After what is there was looked at, and before any of it is answered: a test that
		 * has an answer asks for the lie with the commands that it sends next.
		 */
		uint32_t lie = load(&fake.lie_consumed);

		fake_host_functions(load(&header->host_done));
		if (end == consumed) {
			if (++idle > 200)
				sleep_until_kicked();
			continue;
		}
		idle = 0;
		if (load(&fake.stall_us))
			usleep(load(&fake.stall_us));
		while (__atomic_load_n(&fake.shut, __ATOMIC_ACQUIRE) ||
		       load(&fake.polls) < load(&fake.until_polls) ||
		       load(&fake.waits) < load(&fake.until_waits))
			usleep(100);
		while (consumed != end && take(consumed))
			consumed = header->consumed;
		if (lie) {
			__atomic_store_n(&header->consumed, consumed + lie, __ATOMIC_RELEASE);
			break;
		}
	}
	return NULL;
}

static int fake_open(struct paracuda_ioctl_open *args, void **at)
{
	pthread_t thread;
	int fd;

	if (fake.open_error)
		return fake.open_error;
	if (args->version != PARACUDA_VERSION)
		return EPROTO;
	fake.first_gpu = args->channel;
	fd = memfd_create("arena", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, ARENA_BYTES))
		return errno;
	arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	header = (struct paracuda_arena_header *)arena;
	args->arena_bytes = ARENA_BYTES;
	header->inline_limit = 4096;
	header->config_flags = PARACUDA_CONFIG_FLAG_ADDRESS_MAPPING;
	header->batch_commands = 32;
	header->spin_guest_us = 20;
	*at = arena;
	fake_device_init();
	if (pthread_create(&thread, NULL, serve, NULL))
		return EAGAIN;
	pthread_detach(thread);
	return 0;
}

static int fake_kick(void)
{
	fake_count(&fake.kicks);
	pthread_mutex_lock(&lock);
	kicked = true;
	pthread_cond_signal(&worker_wake);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int fake_wait(struct paracuda_ioctl_wait *wait)
{
	const uint32_t *word = (const uint32_t *)(arena + wait->offset);

	bool held = load(&header->held);

	fake_count(&fake.waits);
	pthread_mutex_lock(&lock);
	while (load(word) == wait->value && !load(&header->dead) && !(held && !load(&header->held)))
		pthread_cond_wait(&guest_wake, &lock);
	pthread_mutex_unlock(&lock);
	if (load(word) == wait->value && held && !load(&header->held))
		return EAGAIN;
	return load(word) == wait->value ? EIO : 0;
}

/* Gives up early, as a driver may. */
#define FAKE_POLL_NS 400000

static int fake_poll(struct paracuda_ioctl_wait *wait)
{
	const uint32_t *word = (const uint32_t *)(arena + wait->offset);
	uint64_t ns = wait->timeout_ns < FAKE_POLL_NS ? wait->timeout_ns : FAKE_POLL_NS;

	fake_count(&fake.polls);
	for (uint64_t end = ticks() + ns * ticks_per_us() / 1000; ticks() < end;)
		if (load(word) != wait->value)
			return 0;
	return ETIMEDOUT;
}

/* A driver that has no memory in long runs. */
static int fake_host_memory(void *at, uint64_t bytes)
{
	(void)at;
	(void)bytes;
	return ENOMEM;
}

/* A descriptor is a file with the object's number in it. */
static int fake_export(struct paracuda_ioctl_export *args)
{
	if (fake.export_error)
		return fake.export_error;
	args->fd = memfd_create("object", MFD_CLOEXEC);
	return args->fd >= 0 && pwrite(args->fd, &args->object, 4, 0) == 4 ? 0 : EMFILE;
}

static int fake_import(struct paracuda_ioctl_import *args)
{
	if (fcntl(args->fd, F_GETFD) < 0)
		return EBADF;
	return pread(args->fd, &args->object, 4, 0) == 4 ? 0 : EINVAL;
}

static const struct transport fake_transport = {
	.open = fake_open,
	.kick = fake_kick,
	.wait = fake_wait,
	.poll = fake_poll,
	.map = fake_map,
	.host_memory = fake_host_memory,
	.export_object = fake_export,
	.import_object = fake_import,
};

void fake_install(void)
{
	transport = &fake_transport;
}

void fake_die(void)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&header->dead, 1, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&guest_wake);
	pthread_cond_broadcast(&worker_wake);
	pthread_mutex_unlock(&lock);
}

void fake_hold(bool on)
{
	pthread_mutex_lock(&lock);
	__atomic_store_n(&header->held, on, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&guest_wake);
	pthread_mutex_unlock(&lock);
}

void fake_stick(int error)
{
	__atomic_store_n(&header->sticky_error, (uint32_t)error, __ATOMIC_RELEASE);
}

void fake_print(int fd, const char *text)
{
	struct paracuda_output_record record = { (uint32_t)fd, (uint32_t)strlen(text) };
	uint32_t padded = (record.bytes + 7) & ~7u;
	uint32_t head = header->output_head;
	uint8_t *ring = arena + PARACUDA_OUTPUT;

	for (uint32_t i = 0; i < sizeof(record); i++)
		ring[(head + i) % PARACUDA_OUTPUT_BYTES] = ((uint8_t *)&record)[i];
	for (uint32_t i = 0; i < record.bytes; i++)
		ring[(head + sizeof(record) + i) % PARACUDA_OUTPUT_BYTES] = (uint8_t)text[i];
	__atomic_store_n(&header->output_head, head + (uint32_t)sizeof(record) + padded,
			 __ATOMIC_RELEASE);
}
