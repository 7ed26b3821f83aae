/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit: before it this library does nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"
#include "devices/peers.h"
#include "exports/hooks.h"
#include "launches/launch.h"
#include "paracuda_ioctl.h"
#include "transport/bulk.h"
#include "transport/channel.h"
#include "transport/output.h"

#define INVENTORY_MAX                                                                  \
	(PARACUDA_SIZEOF_INVENTORY + DEVICES_MAX * (PARACUDA_SIZEOF_INVENTORY_DEVICE + \
						    DEVICES_MAX * PARACUDA_SIZEOF_INVENTORY_PAIR))

extern char **environ;

/* Only cuInit writes it, under the lock. */
static struct {
	pthread_mutex_t lock;
	bool greeted; /* there is a channel, and the worker was asked: done only once */
	CUresult greeting; /* its result */
	int explained; /* the error that was explained last */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Tells the user why there is no channel, once, since programs try again. Returns the program's
 * error.
 */
static CUresult explain(int error)
{
	void (*say)(const char *format, ...) = error == state.explained ? log_line : log_user;

	state.explained = error;
	switch (error) {
	case ENOENT:
		log_line("no " PARACUDA_DEVICE);
		return CUDA_ERROR_NO_DEVICE;
	case ENXIO:
		say("the host has no GPU for this VM: run paracuda doctor there");
		return CUDA_ERROR_NO_DEVICE;
	case EACCES:
	case EPERM:
		say("no permission to open " PARACUDA_DEVICE ": chmod 0666 " PARACUDA_DEVICE);
		return CUDA_ERROR_NO_DEVICE;
	case EPROTO:
		say("libcuda.so.1 and the paracuda kernel module are of different versions: "
		    "install both from one package, then reload the module");
		return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
	case ENODEV:
		say(DEVICE_IS_GONE);
		return CUDA_ERROR_SYSTEM_NOT_READY;
	case EHOSTDOWN:
		say("the host started no worker for this process: its log says why");
		return CUDA_ERROR_SYSTEM_NOT_READY;
	case EBUSY:
		say("all channels of the paracuda device are in use: end another CUDA program, "
		    "or give the device more channels");
		return CUDA_ERROR_SYSTEM_NOT_READY;
	case EDQUOT:
		say("this user has as many channels of the paracuda device as one user may: "
		    "end another of his CUDA programs, "
		    "or raise user_share of the paracuda kernel module");
		return CUDA_ERROR_SYSTEM_NOT_READY;
	default:
		say("opening " PARACUDA_DEVICE ": %s", strerror(error));
		return CUDA_ERROR_UNKNOWN;
	}
}

/* More isn't needed: the worker takes over some twenty variables, none of them long. */
#define ENVIRONMENT_MAX (PARACUDA_COMMAND_MAX / 2)

/*
 * The process's CUDA_ variables, each followed by NUL, as far as there is room; the device list is
 * applied in the guest.
 */
static char *environment(size_t *bytes)
{
	static const char visible[] = "CUDA_VISIBLE_DEVICES=";
	char *text = malloc(ENVIRONMENT_MAX);

	*bytes = 0;
	for (char **e = environ; text && e && *e; e++) {
		size_t length = strlen(*e) + 1;

		if (strncmp(*e, "CUDA_", 5) || !strncmp(*e, visible, sizeof(visible) - 1) ||
		    length > ENVIRONMENT_MAX - *bytes)
			continue;
		memcpy(text + *bytes, *e, length);
		*bytes += length;
	}
	return text;
}

static CUresult hello(void)
{
	uint64_t bulk = bulk_take(INVENTORY_MAX < bulk_limit() ? INVENTORY_MAX : bulk_limit());
	size_t room = INVENTORY_MAX < bulk_limit() ? INVENTORY_MAX : bulk_limit();
	uint64_t length = 0;
	CUresult result;
	size_t bytes;
	char *text = environment(&bytes);

	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = call_HELLO(argument_inline(text, bytes), argument_bulk(bulk, room), &length);
	free(text);
	if (!result && length > room)
		result = CUDA_ERROR_UNKNOWN;
	if (!result)
		result = devices_load(channel.arena + bulk, length);
	if (!result)
		result = peers_load(channel.arena + bulk, length);
	bulk_give(bulk);
	return result;
}

static CUresult start(void)
{
	int error;

	if (state.greeted)
		return state.greeting;
	hooks_set();
	error = channel_open(devices_first(getenv("CUDA_VISIBLE_DEVICES")));
	if (error)
		return explain(error);
	thread_self();
	state.greeted = true;
	state.greeting = hello();
	if (state.greeting)
		log_line("cuInit: error %d", state.greeting);
	launch_init();
	return state.greeting;
}

/*
 * The end of the process. As natively, it waits for nothing, and what kernels printed since the
 * last synchronization is lost. The worker ends when the channel closes.
 */
static void finish(void)
{
	if (library_state == STATE_READY)
		__atomic_store_n(&library_state, STATE_ENDED, __ATOMIC_RELEASE);
}

EXPORT CUresult cuInit(unsigned int Flags)
{
	CUresult result;

	if (__atomic_load_n(&library_state, __ATOMIC_ACQUIRE) == STATE_ENDED)
		return CUDA_ERROR_DEINITIALIZED;
	if (__atomic_load_n(&library_state, __ATOMIC_ACQUIRE) == STATE_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&state.lock);
	result = CUDA_SUCCESS;
	if (library_state == STATE_NONE) {
		result = start();
		if (!result && atexit(finish))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (!result)
			__atomic_store_n(&library_state, STATE_READY, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&state.lock);
	return result;
}

/*
 * The runtime asks before cuInit, when there is no worker yet, and later uses the answer in its
 * integrity check. So the first answer holds, even if the host's driver turns out to be older.
 */
EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	int unknown = 0;

	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	__atomic_compare_exchange_n(&devices.driver_version, &unknown, DRIVER_VERSION, false,
				    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	*driverVersion = devices.driver_version;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	const char *text = getenv("CUDA_MODULE_LOADING");

	ENTER();
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = text && !strcmp(text, "EAGER") ? 1 : 2;
	return CUDA_SUCCESS;
}

/* There is no profiler to start. */
EXPORT CUresult cuProfilerStart(void)
{
	ENTER();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuProfilerStop(void)
{
	ENTER();
	return CUDA_SUCCESS;
}
