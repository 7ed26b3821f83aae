// SPDX-License-Identifier: Apache-2.0

#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t w;

int32_t pc_call(void *function, const struct pc_frame *frame, int32_t n)
{
	const w *a = frame->argument;

	switch (n) {
	case 0: return ((int32_t (*)(void))function)();
	case 1: return ((int32_t (*)(w))function)(a[0]);
	case 2: return ((int32_t (*)(w, w))function)(a[0], a[1]);
	case 3: return ((int32_t (*)(w, w, w))function)(a[0], a[1], a[2]);
	case 4: return ((int32_t (*)(w, w, w, w))function)(a[0], a[1], a[2], a[3]);
	case 5: return ((int32_t (*)(w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4]);
	case 6: return ((int32_t (*)(w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4], a[5]);
	case 7: return ((int32_t (*)(w, w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
	case 8:
		return ((int32_t (*)(w, w, w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
	case 12:
		return ((int32_t (*)(w, w, w, w, w, w, w, w, w, w, w, w))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6],
										   a[7], a[8], a[9], a[10], a[11]);
	case 15:
		return ((int32_t (*)(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w))function)(
			a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14]);
	case 16:
		return ((int32_t (*)(w, w, w, w, w, w, w, w, w, w, w, w, w, w, w, w))function)(
			a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
	}
	return 999;
}

// CUlaunchConfig.
struct launch_config {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t pad;
	uint64_t stream;
	uint64_t attributes;
	uint32_t attribute_count;
	uint32_t pad2;
};

typedef int32_t launch_kernel_fn(w, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, w, void **,
				 void **);
typedef int32_t launch_kernel_ex_fn(const struct launch_config *, w, void **, void **);

static int32_t launch_one(void *plain, void *ex, const struct pc_launch *l)
{
	size_t bytes = l->parameter_bytes;
	// CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
	void *extra[] = {(void *)1, (void *)(uintptr_t)l->parameters, (void *)2, &bytes, (void *)0};
	void **packed = bytes ? extra : NULL;

	if (!l->attribute_count) {
		if (!plain)
			return 801;
		return ((launch_kernel_fn *)plain)(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
						   l->block[1], l->block[2], l->shared, l->stream, NULL, packed);
	}
	if (!ex)
		return 801;
	struct launch_config config = {
		.grid = {l->grid[0], l->grid[1], l->grid[2]},
		.block = {l->block[0], l->block[1], l->block[2]},
		.shared = l->shared,
		.stream = l->stream,
		.attributes = l->attributes,
		.attribute_count = l->attribute_count,
	};
	if (l->pointers)
		return ((launch_kernel_ex_fn *)ex)(&config, l->function, (void **)(uintptr_t)l->pointers, NULL);
	return ((launch_kernel_ex_fn *)ex)(&config, l->function, NULL, packed);
}

struct event_handle {
	char bytes[64];
};

int32_t pc_open_event(void *function, uint64_t *event, const void *handle)
{
	struct event_handle h;

	memcpy(&h, handle, sizeof(h));
	return ((int32_t (*)(uint64_t *, struct event_handle))function)(event, h);
}

int32_t pc_call_floats(void *function, uint64_t object, float a, float b, int32_t n)
{
	if (n == 1)
		return ((int32_t (*)(w, float))function)(object, a);
	return ((int32_t (*)(w, float, float))function)(object, a, b);
}

int32_t pc_launches(void *launch_kernel, void *launch_kernel_ex, const struct pc_launch *launch, int32_t n, int32_t *done)
{
	int32_t result = 0;
	int32_t i;

	for (i = 0; i < n; i++) {
		result = launch_one(launch_kernel, launch_kernel_ex, &launch[i]);
		if (result)
			break;
	}
	*done = i;
	return result;
}

struct pc_wait {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t token;
	int32_t fd;
	int32_t users; // of the memory: the stream and the one who releases
	int32_t released;
};

struct pc_wait *pc_wait_new(int32_t fd, uint64_t token)
{
	struct pc_wait *wait = calloc(1, sizeof(*wait));

	if (!wait)
		return NULL;
	pthread_mutex_init(&wait->lock, NULL);
	pthread_cond_init(&wait->changed, NULL);
	wait->token = token;
	wait->fd = fd;
	wait->users = 1;
	return wait;
}

// wait_leave unlocks wait, and frees it when nobody uses it any more.
static void wait_leave(struct pc_wait *wait)
{
	int32_t last = --wait->users == 0;

	pthread_mutex_unlock(&wait->lock);
	if (!last)
		return;
	pthread_cond_destroy(&wait->changed);
	pthread_mutex_destroy(&wait->lock);
	free(wait);
}

// wait_run is what the driver calls, on a thread of its own.
static void wait_run(void *data)
{
	struct pc_wait *wait = data;
	ssize_t n;

	do
		n = write(wait->fd, &wait->token, sizeof(wait->token));
	while (n < 0 && errno == EINTR);
	pthread_mutex_lock(&wait->lock);
	while (!wait->released && n == (ssize_t)sizeof(wait->token))
		pthread_cond_wait(&wait->changed, &wait->lock);
	wait_leave(wait);
}

int32_t pc_wait_launch(void *launch_host_func, uint64_t stream, struct pc_wait *wait)
{
	int32_t result;

	wait->users = 2;
	result = ((int32_t (*)(w, void (*)(void *), void *))launch_host_func)(stream, wait_run, wait);
	if (result)
		wait->users = 1;
	return result;
}

void pc_wait_release(struct pc_wait *wait)
{
	pthread_mutex_lock(&wait->lock);
	wait->released = 1;
	pthread_cond_signal(&wait->changed);
	wait_leave(wait);
}
