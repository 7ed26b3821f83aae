/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of CUPTI that PyTorch's profiler uses. A program that is started with LD_PRELOAD of
 * this library calls these; all others are NVIDIA's, which find no GPU of their own and say so.
 */
#include <stddef.h>
#include <stdint.h>

#include "buffers.h"
#include "clock.h"
#include "cupti.h"
#include "driver.h"
#include "work.h"

#define VERSION 130000

/* CUPTI's domains of callbacks. */
enum { DOMAIN_RESOURCE = 3 };

static char subscriber;
static int subscribed;

EXPORT enum cupti cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return CUPTI_INVALID_PARAMETER;
	*version = VERSION;
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiGetResultString(enum cupti result, const char **text)
{
	if (!text)
		return CUPTI_INVALID_PARAMETER;
	switch (result) {
	case CUPTI_SUCCESS:
		*text = "CUPTI_SUCCESS";
		break;
	case CUPTI_INVALID_PARAMETER:
		*text = "CUPTI_ERROR_INVALID_PARAMETER";
		break;
	case CUPTI_MAX_LIMIT_REACHED:
		*text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
		break;
	case CUPTI_NOT_INITIALIZED:
		*text = "CUPTI_ERROR_NOT_INITIALIZED";
		break;
	case CUPTI_QUEUE_EMPTY:
		*text = "CUPTI_ERROR_QUEUE_EMPTY";
		break;
	case CUPTI_INVALID_KIND:
		*text = "CUPTI_ERROR_INVALID_KIND";
		break;
	case CUPTI_NOT_SUPPORTED:
		*text = "CUPTI_ERROR_NOT_SUPPORTED";
		break;
	case CUPTI_MULTIPLE_SUBSCRIBERS:
		*text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
		break;
	default:
		*text = "CUPTI_ERROR_UNKNOWN";
		break;
	}
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiSubscribe(void **out, void *callback, void *data)
{
	(void)callback;
	(void)data;
	if (!out)
		return CUPTI_INVALID_PARAMETER;
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	if (__atomic_exchange_n(&subscribed, 1, __ATOMIC_ACQ_REL))
		return CUPTI_MULTIPLE_SUBSCRIBERS;
	*out = &subscriber;
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiUnsubscribe(void *which)
{
	if (which != &subscriber)
		return CUPTI_INVALID_PARAMETER;
	__atomic_store_n(&subscribed, 0, __ATOMIC_RELEASE);
	return CUPTI_SUCCESS;
}

/*
 * A client may ask for callbacks that only tell it about contexts: none comes. Callbacks for calls
 * aren't supported.
 */
EXPORT enum cupti cuptiEnableDomain(uint32_t on, void *which, unsigned domain)
{
	if (which != &subscriber)
		return CUPTI_INVALID_PARAMETER;
	return !on || domain == DOMAIN_RESOURCE ? CUPTI_SUCCESS : CUPTI_NOT_SUPPORTED;
}

EXPORT enum cupti cuptiEnableCallback(uint32_t on, void *which, unsigned domain, uint32_t id)
{
	(void)id;
	return cuptiEnableDomain(on, which, domain);
}

EXPORT enum cupti cuptiActivityRegisterCallbacks(buffer_request *request, buffer_complete *complete)
{
	if (!request || !complete)
		return CUPTI_INVALID_PARAMETER;
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	work_lock();
	buffers_use(request, complete);
	work_unlock();
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void))
{
	if (!now)
		return CUPTI_INVALID_PARAMETER;
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	work_lock();
	clock_use(now);
	work_unlock();
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiGetTimestamp(uint64_t *time)
{
	if (!time)
		return CUPTI_INVALID_PARAMETER;
	*time = clock_client_now();
	return CUPTI_SUCCESS;
}

#define KINDS                                                                             \
	(1ull << KIND_COPY | 1ull << KIND_FILL | KINDS_OF_KERNELS | 1ull << KIND_DRIVER | \
	 1ull << KIND_EXTERNAL)

static enum cupti enable(unsigned kind, uint64_t on)
{
	if (kind >= 64 || !(KINDS & 1ull << kind))
		return CUPTI_INVALID_KIND;
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	if (on)
		__atomic_fetch_or(&work_kinds, 1ull << kind, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&work_kinds, ~(1ull << kind), __ATOMIC_RELAXED);
	work_watch(__atomic_load_n(&work_kinds, __ATOMIC_RELAXED) & ~(1ull << KIND_EXTERNAL));
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiActivityEnable(unsigned kind)
{
	return enable(kind, 1);
}
EXPORT enum cupti cuptiActivityDisable(unsigned kind)
{
	return enable(kind, 0);
}

/*
 * Single functions of the runtime can be excluded, as none is recorded anyway; of the driver's
 * functions only cuLaunchKernel is recorded.
 */
EXPORT enum cupti cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on)
{
	(void)id;
	return on ? CUPTI_NOT_SUPPORTED : CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiActivityEnableDriverApi(uint32_t id, uint8_t on)
{
	return cuptiActivityEnableRuntimeApi(id, on);
}

EXPORT enum cupti cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on)
{
	return on ? CUPTI_NOT_SUPPORTED : CUPTI_SUCCESS;
}

/*
 * All that can be set is sizes of CUPTI's own buffers, of which this library
 * has none.
 */
EXPORT enum cupti cuptiActivitySetAttribute(unsigned attribute, size_t *bytes, void *value)
{
	(void)attribute;
	return bytes && value ? CUPTI_SUCCESS : CUPTI_INVALID_PARAMETER;
}

/*
 * Work that isn't over stays, whatever the flag says: it may wait for the caller.
 */
EXPORT enum cupti cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	work_drain();
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiFinalize(void)
{
	if (!driver())
		return CUPTI_NOT_INITIALIZED;
	__atomic_store_n(&work_kinds, 0, __ATOMIC_RELAXED);
	work_watch(false);
	work_drain();
	__atomic_store_n(&subscribed, 0, __ATOMIC_RELEASE);
	return CUPTI_SUCCESS;
}
