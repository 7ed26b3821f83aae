/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD, after libparacuda-cupti.so: records all that a program gives to the GPU, while a
 * thread asks for the records without end. Says at the program's end how many there were.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cuptiActivityEnable(unsigned kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record);
int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
				   void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t));

static unsigned count;

static void request(uint8_t **buffer, size_t *bytes, size_t *most)
{
	*bytes = 1 << 16;
	*buffer = malloc(*bytes);
	*most = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	void *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	while (!cuptiActivityGetNextRecord(buffer, valid, &record))
		__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
	free(buffer);
}

static void *ask(void *unused)
{
	const struct timespec pause = { .tv_nsec = 2000000 };

	for (;;) {
		cuptiActivityFlushAll(0);
		nanosleep(&pause, NULL);
	}
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	static const unsigned kinds[] = { 1, 2, 4, 10 };
	pthread_t thread;

	cuptiActivityRegisterCallbacks(request, complete);
	for (unsigned i = 0; i < 4; i++)
		cuptiActivityEnable(kinds[i]);
	pthread_create(&thread, NULL, ask, NULL);
}

__attribute__((destructor)) static void end(void)
{
	cuptiActivityFlushAll(0); /* the thread may not have run while there was something */
	fprintf(stderr, "%u records\n", __atomic_load_n(&count, __ATOMIC_RELAXED));
}
