/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that lies, hangs or dies: calls return errors, and nothing outside is touched. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "code/function.h"
#include "fake_worker.h"
#include "transport/channel.h"

static CUcontext context;
static CUstream stream;
static CUdeviceptr a;

static void start(void)
{
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuMemAlloc_v2(&a, 4096));
}

static void lies_about_the_inventory(void)
{
	fake.lie_length = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuInit(0));
	fake.lie_length = false;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuInit(0));
}

static void describes_too_many_devices(void)
{
	fake.devices = 1000000;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuInit(0));
}

static void has_no_devices(void)
{
	int n;

	fake.devices = 0;
	CHECK_IS(CUDA_ERROR_NO_DEVICE, cuInit(0));
	CHECK_IS(CUDA_ERROR_NO_DEVICE, cuInit(0));
	CHECK_IS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
}

static void gives_default_streams_as_handles(void)
{
	CUevent event;

	start();
	fake.lie_handle = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuStreamCreate(&stream, 0));
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuEventCreate(&event, 0));
}

static void describes_functions_wrongly(void)
{
	CUmodule module;
	CUfunction f;
	void *args[4] = { &a, &a, &a, &a };

	start();
	CHECK_IS(0, cuModuleLoadData(&module, ".version 8.0\n"));
	CHECK_IS(0, cuModuleGetFunction(&f, module, "add"));
	fake.lie_length = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	fake.lie_length = false;
	fake.lie_record = true;
	CHECK_IS(CUDA_ERROR_UNKNOWN, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	fake.lie_record = false;
	CHECK_IS(0, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL,
				   (void *[]){ &a, &a, &a, &(int){ 1 } }, NULL));
	CHECK_IS(0, cuCtxSynchronize());
}

static void parses_records(void)
{
	struct paracuda_function_record r = { .parameters = 1, .parameter_bytes = 8 };
	uint8_t bytes[200] = { 0 };
	struct description *d;

	memcpy(bytes, &r, sizeof(r));
	bytes[sizeof(r) + 4] = 8;
	CHECK_IS(0, description_parse(bytes, 88, &d));
	CHECK(d->parameters == 1 && d->parameter[0].bytes == 8 && !*d->name);
	free(d);
	CHECK_IS(CUDA_ERROR_UNKNOWN, description_parse(bytes, 87, &d));
	CHECK_IS(CUDA_ERROR_UNKNOWN, description_parse(bytes, 79, &d));
	bytes[sizeof(r)] = 1;
	CHECK_IS(CUDA_ERROR_UNKNOWN, description_parse(bytes, 88, &d));
	r.parameters = 0xffffffff;
	memcpy(bytes, &r, sizeof(r));
	CHECK_IS(CUDA_ERROR_UNKNOWN, description_parse(bytes, 200, &d));
	r.parameters = 0;
	r.name_bytes = 0xffffffff;
	memcpy(bytes, &r, sizeof(r));
	CHECK_IS(CUDA_ERROR_UNKNOWN, description_parse(bytes, 200, &d));
}

static void *die_soon(void *unused)
{
	(void)unused;
	usleep(50000);
	fake_die();
	return NULL;
}

static void dies_while_a_call_waits(void)
{
	pthread_t t;

	start();
	fake.hang = true;
	pthread_create(&t, NULL, die_soon, NULL);
	CHECK_IS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxSynchronize());
	pthread_join(t, NULL);
	CHECK_IS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuMemsetD8_v2(a, 0, 1));
	CHECK_IS(0, cuCtxGetCurrent(&context));
}

static void dies_while_the_ring_is_full(void)
{
	pthread_t t;
	CUresult result = 0;
	static uint8_t bytes[4096];

	start();
	__atomic_store_n(&fake.stall_us, 60000000, __ATOMIC_RELAXED);
	pthread_create(&t, NULL, die_soon, NULL);
	for (int i = 0; i < 1000 && !result; i++)
		result = cuMemcpyHtoD_v2(a, bytes, sizeof(bytes));
	CHECK_IS(CUDA_ERROR_DEVICE_UNAVAILABLE, result);
	pthread_join(t, NULL);
}

static void fails_for_good(void)
{
	CUdeviceptr b;

	start();
	fake_stick(CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&b, 64));
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemFree_v2(a));
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemsetD8_v2(a, 0, 1));
	CHECK_IS(0, cuCtxGetCurrent(&context));
	fake_die();
	CHECK_IS(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

static void prints_nonsense(void)
{
	struct paracuda_output_record record = { 1, 0xfffffff0 };

	start();
	memcpy(channel.arena + PARACUDA_OUTPUT, &record, sizeof(record));
	__atomic_store_n(&channel.header->output_head, 64, __ATOMIC_RELEASE);
	CHECK_IS(0, cuCtxSynchronize());
	__atomic_store_n(&channel.header->output_head, 0x80000000, __ATOMIC_RELEASE);
	CHECK_IS(0, cuCtxSynchronize());
	CHECK_IS(0x80000000, channel.header->output_tail);
}

/* Returns once the worker has claimed to have consumed so many bytes too much. */
static uint32_t consumed_after_lie(uint32_t bytes)
{
	uint32_t consumed;

	__atomic_store_n(&fake.lie_consumed, bytes, __ATOMIC_RELEASE);
	CHECK_IS(0, cuCtxSynchronize());
	do
		consumed = __atomic_load_n(&channel.header->consumed, __ATOMIC_ACQUIRE) - bytes;
	while (consumed != channel.header->appended);
	return consumed;
}

static void claims_to_have_consumed_too_much(void)
{
	pthread_t t;

	start();
	consumed_after_lie(12345);
	pthread_create(&t, NULL, die_soon, NULL);
	CHECK_IS(CUDA_ERROR_DEVICE_UNAVAILABLE, cuCtxSynchronize());
	pthread_join(t, NULL);
}

static void claims_to_have_consumed_rings_too_much(void)
{
	pthread_t t;
	CUresult result = 0;
	static uint8_t bytes[4096];
	uint32_t consumed;

	start();
	consumed = consumed_after_lie(2 * PARACUDA_RING_BYTES + 12345);
	pthread_create(&t, NULL, die_soon, NULL);
	for (int i = 0; i < 1000 && !result; i++)
		result = cuMemcpyHtoD_v2(a, bytes, sizeof(bytes));
	CHECK_IS(CUDA_ERROR_DEVICE_UNAVAILABLE, result);
	pthread_join(t, NULL);
	CHECK(channel.header->appended - consumed <= PARACUDA_RING_BYTES);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
#define CASE(f) { #f, f }
		CASE(lies_about_the_inventory),
		CASE(describes_too_many_devices),
		CASE(has_no_devices),
		CASE(gives_default_streams_as_handles),
		CASE(describes_functions_wrongly),
		CASE(parses_records),
		CASE(dies_while_a_call_waits),
		CASE(dies_while_the_ring_is_full),
		CASE(fails_for_good),
		CASE(prints_nonsense),
		CASE(claims_to_have_consumed_too_much),
		CASE(claims_to_have_consumed_rings_too_much),
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			alarm(60);
			fake_install();
			cases[i].run();
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child);
		if (status) {
			fprintf(stderr, "a worker that %s: status %#x\n", cases[i].name, status);
			return 1;
		}
	}
	return 0;
}
