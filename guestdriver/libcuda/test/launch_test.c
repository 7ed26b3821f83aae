/* SPDX-License-Identifier: Apache-2.0 */
/* Which launches report what is wrong with them, and which nobody waits for. */
#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "code/function.h"
#include "context/handle.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"
#include "launches/launch.h"

#define FAILS CUDA_ERROR_ILLEGAL_STATE

static uint64_t zero;
static void *none[4] = { &zero, &zero, &zero, &zero };

static CUfunction function(int threads)
{
	CUmodule m;
	CUfunction f;
	int most;

	fake.function_threads = threads;
	CHECK_IS(0, cuModuleLoadData(&m, ".version 8.0\n"));
	CHECK_IS(0, cuModuleGetFunction(&f, m, "add"));
	CHECK_IS(0, cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
	CHECK_IS(threads, most);
	return f;
}

static CUresult launch(CUfunction f, unsigned blocks, unsigned threads, unsigned cluster,
		       unsigned id)
{
	CUlaunchAttribute a = { .id = id };
	CUlaunchConfig c = { .gridDimX = blocks,
			     .gridDimY = 1,
			     .gridDimZ = 1,
			     .blockDimX = threads,
			     .blockDimY = 1,
			     .blockDimZ = 1,
			     .attrs = &a,
			     .numAttrs = cluster ? 1 : 0 };
	uint32_t *dim = &a.value.clusterDim.x;

	dim[0] = cluster;
	dim[1] = dim[2] = 1;
	return cuLaunchKernelEx(&c, f, none, NULL);
}

static void expect(CUfunction f, unsigned blocks, unsigned threads, unsigned cluster, unsigned id,
		   bool answered)
{
	__atomic_store_n(&fake.fail_op, OP_cuLaunchKernel, __ATOMIC_RELAXED);
	CHECK_IS(answered ? FAILS : 0, launch(f, blocks, threads, cluster, id));
	CHECK_IS(answered ? 0 : FAILS, cuCtxSynchronize());
}

static void ordinary(void)
{
	CUfunction f = function(1024);

	expect(f, 1, 32, 0, 0, false);
	expect(f, 4, 1024, 0, 0, false);
}

/*
 * Packed parameters may be fewer bytes than a function has, and nobody waits for such a launch. Of
 * none, and of too many, only the driver can say what is wrong.
 */
static void packed(void)
{
	static uint8_t buffer[64];
	CUfunction f = function(1024);
	size_t bytes, all;
	void *extra[] = { (void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, buffer,
			  (void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, &bytes,
			  (void *)CU_LAUNCH_PARAM_END_AS_INT };
	struct description *d;

	CHECK_IS(0, function_describe(function_find(f), &d));
	all = d->parameter_bytes;
	for (bytes = 0; bytes <= all + 1; bytes++) {
		bool answered = !bytes || bytes > all;

		__atomic_store_n(&fake.fail_op, OP_cuLaunchKernel, __ATOMIC_RELAXED);
		CHECK_IS(answered ? FAILS : 0,
			 cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
		CHECK_IS(answered ? 0 : FAILS, cuCtxSynchronize());
	}
}

/*
 * A function that takes few threads may want just so many: the launch that shows is waited for,
 * others like it aren't.
 */
static void few_threads(void)
{
	CUfunction f = function(32);

	for (unsigned threads = 16; threads <= 32; threads += 16) {
		expect(f, 1, threads, 0, 0, true);
		expect(f, 1, threads, 0, 0, true);
		CHECK_IS(0, launch(f, 1, threads, 0, 0));
		expect(f, 7, threads, 0, 0, false);
	}
	expect(f, 1, 16, 0, 0, false);
	expect(f, 1, 64, 0, 0, true);
}

/* Attributes are looked at one after another, as the driver does. */
static void wrong_attributes(void)
{
	CUfunction f = function(1024);
	CUlaunchAttribute a[2] = { { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION },
				   { .id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
				     .value.clusterDim.x = 101 } },
			  other;
	CUlaunchConfig c = { .gridDimX = 4,
			     .gridDimY = 1,
			     .gridDimZ = 1,
			     .blockDimX = 32,
			     .blockDimY = 1,
			     .blockDimZ = 1,
			     .attrs = a,
			     .numAttrs = 2 };

	CHECK_IS(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&c, f, none, NULL));
	other = a[0], a[0] = a[1], a[1] = other;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&c, f, none, NULL));
	a[0] = (CUlaunchAttribute){ .id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
				    .value.clusterDim.x = 255 << 8 };
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&c, f, none, NULL));
	CHECK_IS(0, cuCtxSynchronize());
}

static void clusters(void)
{
	CUfunction f = function(1024);

	expect(f, 4, 32, 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, true);
	CHECK_IS(0, launch(f, 4, 32, 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
	expect(f, 8, 32, 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, false);
	expect(f, 9, 32, 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, true);
	expect(f, 8, 32, 4, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, true);
	expect(f, 8, 64, 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, true);
	expect(f, 8, 64, 2, CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, true);
	expect(f, 8, 32, 0, 0, false);
	CHECK_IS(0, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2));
	expect(f, 8, 32, 0, 0, true);
	CHECK_IS(0, launch(f, 8, 32, 0, 0));
	expect(f, 8, 32, 0, 0, false);
	expect(f, 7, 32, 0, 0, true);
}

/* A kernel on several devices: no more than there are, each once, with one shape. */
static void several_devices(void)
{
	CUDA_LAUNCH_PARAMS list[3] = { { 0 } };
	CUstream stream;

	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 0, 0));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
	CHECK_IS(0, cuStreamCreate(&stream, 0));
	list[0].hStream = list[1].hStream = stream;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
	CHECK_IS(0, cuStreamDestroy_v2(stream));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 2, 4));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 3, 0));
}

/* One command launches all of them. If the worker's driver can't do that, each has its own. */
static void all_together(CUcontext here, CUcontext there)
{
	uint64_t word[] = { 0x1111, 0x2222 };
	void *parameters[2][4];
	CUDA_LAUNCH_PARAMS list[2];

	for (int i = 0; i < 2; i++) {
		CHECK_IS(0, cuCtxSetCurrent(i ? there : here));
		for (int k = 0; k < 3; k++)
			parameters[i][k] = &word[i];
		parameters[i][3] = &zero;
		list[i] = (CUDA_LAUNCH_PARAMS){ .function = function(1024),
						.gridDimX = 4,
						.gridDimY = 1,
						.gridDimZ = 1,
						.blockDimX = 32,
						.blockDimY = 1,
						.blockDimZ = 1,
						.kernelParams = parameters[i] };
		CHECK_IS(0, cuStreamCreate(&list[i].hStream, 0));
	}
	for (int can = 0; can < 2; can++) {
		unsigned launches = fake.launches;

		fake.together = can;
		CHECK_IS(0, cuLaunchCooperativeKernelMultiDevice(list, 2, 3));
		for (int i = 0; i < 2; i++)
			CHECK_IS(0, cuStreamSynchronize(list[i].hStream));
		CHECK_IS(can ? 0 : 2, fake.launches - launches);
		CHECK_IS(can ? 2 : 0, fake.entries);
	}
	CHECK_IS(0x2222, fake.parameters);
	list[1].gridDimX = 5;
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
	list[0].gridDimX = list[1].gridDimX = 132 * 64 + 1;
	CHECK_IS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		 cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
	CHECK_IS(2, fake.entries);
	for (int i = 0; i < 2; i++)
		CHECK_IS(0, cuStreamDestroy_v2(list[i].hStream));
	CHECK_IS(0, cuCtxSetCurrent(here));
}

int main(void)
{
	CUcontext context, other;

	fake.devices = 2;
	fake_install();
	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuCtxSetCurrent(context));
	ordinary();
	packed();
	few_threads();
	clusters();
	wrong_attributes();
	several_devices();
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&other, 1));
	all_together(context, other);
	return 0;
}
