/* SPDX-License-Identifier: Apache-2.0 */
/* The API from cuInit to copies and launches, against the fake worker. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/zz_generated_prototypes.h"
#include "check.h"
#include "context/context.h"
#include "devices/device.h"
#include "fake_worker.h"

static CUcontext context;

/* cuInit while the channel can't be opened: its result, and what it writes to standard error. */
static CUresult init_refused(int error, char *said, size_t room)
{
	int ends[2], saved = dup(2);
	CUresult result;
	ssize_t n;

	CHECK_IS(0, pipe(ends));
	CHECK_IS(2, dup2(ends[1], 2));
	fake.open_error = error;
	result = cuInit(0);
	fake.open_error = 0;
	CHECK_IS(2, dup2(saved, 2));
	close(saved);
	close(ends[1]);
	n = read(ends[0], said, room - 1);
	CHECK(n >= 0);
	said[n] = 0;
	close(ends[0]);
	return result;
}

/* What keeps a program from the device is said in one line that names the fix, and said once. */
static void refusals(void)
{
	static const struct {
		int error;
		CUresult result;
		const char *fix; /* NULL: nothing is said, as where there is no GPU */
	} cases[] = {
		{ ENOENT, CUDA_ERROR_NO_DEVICE, NULL },
		{ ENXIO, CUDA_ERROR_NO_DEVICE, "run paracuda doctor there" },
		{ EACCES, CUDA_ERROR_NO_DEVICE, "chmod 0666 /dev/paracuda" },
		{ EPROTO, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "install both from one package" },
		{ ENODEV, CUDA_ERROR_SYSTEM_NOT_READY, "attach it again" },
		{ EHOSTDOWN, CUDA_ERROR_SYSTEM_NOT_READY, "its log says why" },
		{ EBUSY, CUDA_ERROR_SYSTEM_NOT_READY, "end another CUDA program" },
		{ EDQUOT, CUDA_ERROR_SYSTEM_NOT_READY, "raise user_share" },
	};
	char said[1024];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_IS(cases[i].result, init_refused(cases[i].error, said, sizeof(said)));
		if (cases[i].fix) {
			CHECK(strstr(said, cases[i].fix));
			CHECK(strchr(said, '\n') == said + strlen(said) - 1);
		}
		if (!cases[i].fix)
			CHECK(!*said);
		CHECK_IS(cases[i].result, init_refused(cases[i].error, said, sizeof(said)));
		CHECK(!*said);
	}
}

static void before_init(void)
{
	CUcontext c = (CUcontext)1;
	const char *text;
	int n;

	CHECK_IS(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&c));
	CHECK(c == (CUcontext)1);
	CHECK_IS(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
	CHECK_IS(CUDA_ERROR_NOT_INITIALIZED, cuMemFree_v2(0));
	CHECK_IS(0, cuDriverGetVersion(&n));
	CHECK_IS(CUDA_DRIVER_VERSION, n);
	CHECK_IS(0, cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	CHECK(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
	CHECK_IS(0, cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK(!strcmp(text, "out of memory"));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(12345, &text));
	CHECK(!text);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	refusals();
}

static void devices_and_contexts(void)
{
	CUdevice dev;
	unsigned flags;
	int n, active;
	char name[32];

	CHECK_IS(0, cuInit(0));
	CHECK_IS(0, cuInit(0));
	CHECK(memmem(fake.environment, fake.environment_bytes, "CUDA_TEST=yes", 14));
	CHECK(!memmem(fake.environment, fake.environment_bytes, "VISIBLE", 7));
	CHECK_IS(1, fake.first_gpu);
	CHECK_IS(0, cuDeviceGetCount(&n));
	CHECK_IS(2, n);
	CHECK_IS(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, 2));
	CHECK_IS(0, cuDeviceGetName(name, sizeof(name), 0));
	CHECK(!strcmp(name, "Fake GPU 1"));
	CHECK_IS(0, cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
	CHECK_IS(0, n);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&n, 5000, 0));
	CHECK_IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	CHECK_IS(0, cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_IS(0, active);
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&context, 0));
	CHECK_IS(0, cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK_IS(1, active);
	CHECK_IS(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)&n));
	CHECK_IS(0, cuCtxSetCurrent(context));
	CHECK_IS(0, cuCtxGetDevice(&dev));
	CHECK_IS(0, dev);
	CHECK_IS(0, cuCtxSynchronize());
}

/* What a module says of its function. */
static void described(CUfunction f)
{
	const char *name;
	size_t offset, size;
	int value;

	CHECK_IS(0, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
	CHECK_IS(1024, value);
	CHECK_IS(0, cuFuncGetName(&name, f));
	CHECK(!strcmp(name, "add"));
	CHECK_IS(0, cuFuncGetParamInfo(f, 3, &offset, &size));
	CHECK(offset == 24 && size == 4);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(f, 4, &offset, &size));
}

/* Parameters one by one, and packed: c = a + b, and c = a + c. */
static void computed(CUfunction f, void **args, const float *x)
{
	CUdeviceptr a = *(CUdeviceptr *)args[0], c = *(CUdeviceptr *)args[2];
	int n = *(int *)args[3];
	float y[1000];
	uint8_t packed[28];
	size_t packed_bytes = sizeof(packed);
	void *extra[] = { (void *)1, packed, (void *)2, &packed_bytes, NULL };

	CHECK_IS(0, cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(0, cuMemcpyDtoH_v2(y, c, sizeof(y)));
	CHECK(y[999] == 2 * x[999]);
	memcpy(packed, &a, 8);
	memcpy(packed + 8, &c, 8);
	memcpy(packed + 16, &c, 8);
	memcpy(packed + 24, &n, 4);
	CHECK_IS(0, cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
	CHECK_IS(0, cuMemcpyDtoH_v2(y, c, sizeof(y)));
	CHECK(y[999] == 3 * x[999]);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, extra));
}

static void refused_launches(CUfunction f, void **args)
{
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuLaunchKernel(f, 0, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuLaunchKernel(f, 1, 70000, 1, 1, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_VALUE,
		 cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 49153, NULL, args, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE,
		 cuLaunchKernel((CUfunction)args, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE,
		 cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (CUstream)99, args, NULL));
}

/* A kernel of a library is launched as a function is, until the library is gone. */
static void launched_kernel(void **args)
{
	CUlibrary library;
	CUkernel kernel;

	CHECK_IS(0, cuLibraryLoadData(&library, ".version 8.0\n", NULL, NULL, 0, NULL, NULL, 0));
	CHECK_IS(0, cuLibraryGetKernel(&kernel, library, "add"));
	CHECK_IS(0, cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
	CHECK_IS(0, cuLibraryUnload(library));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE,
		 cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
}

static void launches(void)
{
	int n = 1000;
	CUdeviceptr a, b, c;
	CUmodule module;
	CUfunction f;
	void *args[] = { &a, &b, &c, &n };
	float x[1000];

	CHECK_IS(0, cuModuleLoadData(&module, ".version 8.0\n"));
	CHECK_IS(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "\x80"));
	CHECK_IS(0, cuModuleGetFunction(&f, module, "add"));
	described(f);
	for (int i = 0; i < n; i++)
		x[i] = (float)i;
	CHECK_IS(0, cuMemAlloc_v2(&a, sizeof(x)));
	CHECK_IS(0, cuMemAlloc_v2(&b, sizeof(x)));
	CHECK_IS(0, cuMemAlloc_v2(&c, sizeof(x)));
	CHECK_IS(0, cuMemcpyHtoD_v2(a, x, sizeof(x)));
	CHECK_IS(0, cuMemcpyHtoD_v2(b, x, sizeof(x)));
	computed(f, args, x);
	refused_launches(f, args);
	launched_kernel(args);
	CHECK_IS(0, cuModuleUnload(module));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
	CHECK_IS(0, cuMemFree_v2(a));
	CHECK_IS(0, cuMemFree_v2(b));
	CHECK_IS(0, cuMemFree_v2(c));
}

/* The functions of a library are in its module, and end with it as that does. */
static void functions_of_libraries(void)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction f, g;
	CUmodule module, of;

	CHECK_IS(0, cuLibraryLoadData(&library, ".version 8.0\n", NULL, NULL, 0, NULL, NULL, 0));
	CHECK_IS(0, cuLibraryGetKernel(&kernel, library, "add"));
	CHECK_IS(0, cuKernelGetFunction(&f, kernel));
	CHECK_IS(0, cuFuncGetModule(&of, f));
	CHECK_IS(0, cuLibraryGetModule(&module, library));
	CHECK(of == module);
	CHECK_IS(0, cuModuleGetFunction(&g, module, "add"));
	CHECK_IS(0, cuFuncGetModule(&of, g));
	CHECK(of == module);
	CHECK_IS(0, cuLibraryUnload(library));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuFuncGetModule(&of, f));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuFuncGetModule(&of, g));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&g, module, "add"));

	CHECK_IS(0, cuModuleLoadData(&module, ".version 8.0\n"));
	CHECK_IS(0, cuModuleGetFunction(&f, module, "add"));
	CHECK_IS(0, cuFuncGetModule(&of, f));
	CHECK(of == module);
	CHECK_IS(0, cuModuleUnload(module));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuFuncGetModule(&of, f));
}

/*
 * A kernel's function is asked for once in each context: the worker here makes another one each
 * time. It ends with its context, and with its library.
 */
static void functions_of_kernels(void)
{
	CUfunction f, g, again;
	CUcontext context;
	CUlibrary library;
	CUkernel kernel;

	CHECK_IS(0, cuLibraryLoadData(&library, ".version 8.0\n", NULL, NULL, 0, NULL, NULL, 0));
	CHECK_IS(0, cuLibraryGetKernel(&kernel, library, "add"));
	CHECK_IS(0, cuKernelGetFunction(&f, kernel));
	CHECK_IS(0, cuKernelGetFunction(&again, kernel));
	CHECK(again == f);
	CHECK_IS(CUDA_ERROR_INVALID_VALUE, cuKernelGetFunction(NULL, kernel));
	for (int i = 0; i < 20; i++) { /* more contexts than are remembered */
		CHECK_IS(0, cuCtxCreate_v2(&context, 0, 0));
		CHECK_IS(0, cuKernelGetFunction(&g, kernel));
		CHECK(g != f && g != again);
		CHECK_IS(0, cuKernelGetFunction(&again, kernel));
		CHECK(again == g);
		CHECK_IS(0, cuCtxDestroy_v2(context));
	}
	CHECK_IS(0, cuKernelGetFunction(&f, kernel));
	CHECK_IS(0, cuKernelGetFunction(&again, kernel));
	CHECK(again == f && f != g);
	CHECK_IS(0, cuLibraryUnload(library));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&g, kernel));
}

static void logs(void)
{
	char error_log[64] = "untouched";
	int options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
			  CU_JIT_LOG_VERBOSE, CU_JIT_WALL_TIME };
	void *values[] = { error_log, (void *)(uintptr_t)sizeof(error_log), (void *)1, NULL };
	CUmodule module;

	CHECK_IS(0, cuModuleLoadDataEx(&module, ".version 8.0\n", 4, options, values));
	CHECK((uintptr_t)values[1] <= sizeof(error_log));
	CHECK_IS(0, cuModuleUnload(module));
}

static void streams_and_events(void)
{
	CUstream s;
	CUevent e, f;
	unsigned flags;
	unsigned long long id, other;
	int captured;
	CUgraph graph;
	float ms;

	CHECK_IS(0, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK_IS(0, cuStreamGetFlags(s, &flags));
	CHECK_IS(1, flags);
	CHECK_IS(0, cuStreamGetId(s, &id));
	CHECK_IS(0, cuStreamGetId(NULL, &other));
	CHECK(id != other);
	CHECK_IS(0, cuStreamIsCapturing(s, &captured));
	CHECK_IS(0, captured);
	CHECK_IS(0, cuEventCreate(&e, 0));
	CHECK_IS(0, cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
	CHECK_IS(0, cuEventRecord(e, s));
	CHECK_IS(0, cuStreamWaitEvent(NULL, e, 0));
	CHECK_IS(0, cuEventQuery(e));
	CHECK_IS(0, cuEventElapsedTime(&ms, e, e));
	CHECK(ms == 1.5f);
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, f));
	/* Of what stands for a point of a capture the driver has more to say. */
	CHECK_IS(0, cuStreamBeginCapture_v2(s, 0));
	CHECK_IS(0, cuEventRecord(f, s));
	CHECK_IS(0, cuStreamEndCapture(s, &graph));
	CHECK_IS(0, cuEventElapsedTime(&ms, e, f));
	CHECK_IS(0, cuEventRecord(f, s));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, f));
	CHECK_IS(0, cuEventDestroy_v2(e));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(e));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(e, s));
	CHECK_IS(0, cuStreamDestroy_v2(s));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(s));
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(s));
	CHECK_IS(0, cuEventDestroy_v2(f));
}

static void errors_of_delayed_calls(void)
{
	CUdeviceptr a;

	CHECK_IS(0, cuMemAlloc_v2(&a, 64));
	__atomic_store_n(&fake.post_error, CUDA_ERROR_LAUNCH_FAILED, __ATOMIC_RELAXED);
	CHECK_IS(0, cuMemsetD8_v2(a, 0, 64));
	CHECK_IS(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
	CHECK_IS(0, cuCtxSynchronize());
	CHECK_IS(0, cuMemFree_v2(a));
}

static void forked(void)
{
	int status;
	pid_t child = fork();

	if (!child) {
		CUdeviceptr a;

		_exit(cuMemAlloc_v2(&a, 64) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ?
			      0 :
			      1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_IS(0, status);
	CHECK_IS(0, cuCtxSynchronize());
}

static int destroyed;

static void destroy(CUcontext c, void *key, void *value)
{
	CHECK(c == context && key == &destroyed && value == &context);
	destroyed++;
}

static void storage(void)
{
	static const CUuuid id = { { 0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3,
				     0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93 } };
	struct {
		CUresult (*put)(CUcontext, void *, void *, void (*)(CUcontext, void *, void *));
		CUresult (*delete)(CUcontext, void *);
		CUresult (*get)(void **, CUcontext, void *);
		void *end;
	} const *table;
	CUcontext again;
	void *value;

	CHECK_IS(0, cuGetExportTable((const void **)&table, &id));
	CHECK(!table->end);
	CHECK_IS(CUDA_ERROR_INVALID_HANDLE, table->get(&value, NULL, &destroyed));
	CHECK_IS(0, table->put(NULL, &destroyed, &context, destroy));
	CHECK_IS(0, table->get(&value, context, &destroyed));
	CHECK(value == &context);
	CHECK_IS(0, table->delete (NULL, &destroyed));
	CHECK_IS(0, destroyed);
	CHECK_IS(0, table->put(NULL, &destroyed, &context, destroy));
	CHECK_IS(0, cuDevicePrimaryCtxReset_v2(0));
	CHECK_IS(1, destroyed);
	CHECK_IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	CHECK_IS(0, cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(again == context);
	CHECK_IS(0, cuCtxSynchronize());
}

static void printed(void)
{
	char text[64] = { 0 };
	int ends[2], saved;

	CHECK(!pipe(ends));
	fflush(stdout);
	saved = dup(1);
	dup2(ends[1], 1);
	fake_print(1, "hello from the kernel\n");
	CHECK_IS(0, cuCtxSynchronize());
	fflush(stdout);
	dup2(saved, 1);
	CHECK(read(ends[0], text, sizeof(text) - 1) == 22);
	CHECK(!strcmp(text, "hello from the kernel\n"));
	close(ends[0]);
	close(ends[1]);
	close(saved);
}

int main(void)
{
	setenv("CUDA_TEST", "yes", 1);
	setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
	fake.devices = 3;
	fake_install();
	before_init();
	devices_and_contexts();
	launches();
	functions_of_libraries();
	functions_of_kernels();
	logs();
	streams_and_events();
	errors_of_delayed_calls();
	forked();
	printed();
	storage();
	return 0;
}
