/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_events.h"

#include <pthread.h>
#include <stdbool.h>

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_device.h"
#include "fake_worker.h"

static pthread_mutex_t busy_lock = PTHREAD_MUTEX_INITIALIZER;
static bool busy;
static struct {
	unsigned slot;
	uint32_t seq;
} waiting[8];
static unsigned waiters;

void fake_busy(void)
{
	pthread_mutex_lock(&busy_lock);
	busy = true;
	pthread_mutex_unlock(&busy_lock);
}

void fake_idle(void)
{
	pthread_mutex_lock(&busy_lock);
	busy = false;
	while (waiters) {
		waiters--;
		fake_answer(waiting[waiters].slot, waiting[waiters].seq, 0, NULL, 0);
	}
	pthread_mutex_unlock(&busy_lock);
}

int fake_event(const struct paracuda_command *c)
{
	int result = 0;

	pthread_mutex_lock(&busy_lock);
	if (busy && c->op == OP_cuEventQuery) {
		result = CUDA_ERROR_NOT_READY;
	} else if (busy && waiters < sizeof(waiting) / sizeof(waiting[0])) {
		waiting[waiters].slot = c->slot;
		waiting[waiters++].seq = c->seq;
		result = FAKE_LATER;
	}
	pthread_mutex_unlock(&busy_lock);
	return result;
}
