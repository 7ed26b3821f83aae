/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records what it gives to the GPU as PyTorch's profiler does, by libparacuda-cupti.so, which
 * LD_PRELOAD must name. Prints a line for each part; what isn't as it should be ends the program.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition);   \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static void *driver;

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "there is no %s\n", name);
		exit(1);
	}
	return function;
}

/* Calls by name, of the driver and of CUPTI. Numbers of 64 bits and pointers only. */
typedef int any(uint64_t, ...);
#define CU(name, ...) CHECK(((any *)find(driver, #name))((uint64_t)__VA_ARGS__) == 0)
#define PT(name, ...) (((any *)find(RTLD_DEFAULT, #name))((uint64_t)__VA_ARGS__))
#define P(pointer) ((uint64_t)(uintptr_t)(pointer))

enum { COPY = 1, FILL = 2, DRIVER = 4, RUNTIME = 5, KERNEL = 10, EXTERNAL = 39 };

/* A record by its words, at the places where CUPTI has its fields. */
static uint32_t word(const void *record, size_t at)
{
	uint32_t value;

	memcpy(&value, (const char *)record + at, sizeof(value));
	return value;
}

static uint64_t wide(const void *record, size_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)record + at, sizeof(value));
	return value;
}

static size_t buffer_bytes = 1 << 20;
static unsigned requested, completed, seen[64];
static char records[256][256];
static unsigned count;

static void request(uint8_t **buffer, size_t *bytes, size_t *most)
{
	requested++;
	*buffer = aligned_alloc(8, (buffer_bytes + 7) & ~(size_t)7);
	*bytes = buffer_bytes;
	*most = 0;
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	void *record = NULL;

	(void)context;
	(void)stream;
	CHECK(bytes == buffer_bytes && valid <= bytes);
	completed++;
	while (!PT(cuptiActivityGetNextRecord, P(buffer), valid, &record)) {
		size_t room = buffer + valid - (uint8_t *)record;

		CHECK(count < 256 && word(record, 0) < 64);
		memcpy(records[count++], record, room < 256 ? room : 256);
		seen[word(record, 0)]++;
	}
	free(buffer);
}

static void flush(void)
{
	memset(seen, 0, sizeof(seen));
	count = completed = 0;
	CHECK(!PT(cuptiActivityFlushAll, 1));
}

/* The record of a kind that comes after i others of it. */
static const void *nth(uint32_t kind, unsigned i)
{
	for (unsigned k = 0; k < count; k++)
		if (word(records[k], 0) == kind && !i--)
			return records[k];
	CHECK(!"there is such a record");
	return NULL;
}

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry seven(.param .u64 p)\n{\n.reg .u64 %r<3>;\n.reg .u32 %v;\n"
	"ld.param.u64 %r1,[p];\ncvta.to.global.u64 %r2,%r1;\nmov.u32 %v,7;\n"
	"st.global.u32 [%r2],%v;\nret;\n}\n";

static void *function, *stream;
static uint64_t memory;

static void launch(unsigned grid, unsigned block)
{
	void *parameters[] = { &memory };

	CU(cuLaunchKernel, P(function), grid, 1, 1, block, 1, 1, 0, P(stream), P(parameters), 0);
}

static void setup(void)
{
	void *context, *module;

	CU(cuInit, 0);
	CU(cuDevicePrimaryCtxRetain, P(&context), 0);
	CU(cuCtxSetCurrent, P(context));
	CU(cuModuleLoadData, P(&module), P(ptx));
	CU(cuModuleGetFunction, P(&function), P(module), P("seven"));
	CU(cuStreamCreate, P(&stream), 1);
	CU(cuMemAlloc_v2, P(&memory), 1 << 20);
}

static void start(void)
{
	static const unsigned kinds[] = { COPY, FILL, DRIVER, KERNEL, EXTERNAL };
	void *subscriber, *other;
	uint32_t version;

	CHECK(!PT(cuptiGetVersion, P(&version)) && version >= 120000);
	CHECK(!PT(cuptiSubscribe, P(&subscriber), 0, 0));
	CHECK(PT(cuptiSubscribe, P(&other), 0, 0) == 39);
	CHECK(!PT(cuptiEnableCallback, 1, P(subscriber), 3, 1));
	CHECK(PT(cuptiEnableDomain, 1, P(subscriber), 1) == 27);
	CHECK(!PT(cuptiActivityRegisterCallbacks, P(request), P(complete)));
	CHECK(PT(cuptiActivityEnable, RUNTIME) == 21);
	for (unsigned i = 0; i < 5; i++)
		CHECK(!PT(cuptiActivityEnable, kinds[i]));
	puts("started");
}

static void check_times(const void *record, size_t at, uint64_t since)
{
	CHECK(wide(record, at) >= since && wide(record, at) <= wide(record, at + 8));
}

static void kernels(void)
{
	uint64_t before, last;
	const void *k, *call, *outer;

	CHECK(!PT(cuptiGetTimestamp, P(&before)));
	launch(3, 64);
	CHECK(!PT(cuptiActivityPushExternalCorrelationId, 3, 4711));
	CHECK(!PT(cuptiActivityPushExternalCorrelationId, 3, 4712));
	launch(2, 32);
	CHECK(!PT(cuptiActivityPopExternalCorrelationId, 3, P(&last)) && last == 4712);
	launch(1, 1);
	CHECK(!PT(cuptiActivityPopExternalCorrelationId, 3, 0));
	CHECK(PT(cuptiActivityPopExternalCorrelationId, 3, 0) == 18);
	CU(cuStreamSynchronize, P(stream));
	CHECK(requested == 1); /* PyTorch doesn't flush where none was */
	flush();
	CHECK(completed == 1 && count == 8 && seen[KERNEL] == 3 && seen[DRIVER] == 3 &&
	      seen[EXTERNAL] == 2);
	k = nth(KERNEL, 0);
	check_times(k, 16, before);
	CHECK(word(k, 52) == 3 && word(k, 56) == 1 && word(k, 64) == 64);
	CHECK(!strcmp((const char *)(uintptr_t)wide(k, 104), "seven"));
	call = nth(DRIVER, 1);
	outer = nth(EXTERNAL, 0);
	CHECK(word(call, 4) == 307 && word(call, 32) == word(nth(KERNEL, 1), 92));
	CHECK(wide(call, 8) >= before && wide(call, 8) <= wide(nth(KERNEL, 1), 16));
	CHECK(wide(outer, 8) == 4712 && word(outer, 16) == word(nth(KERNEL, 1), 92));
	CHECK(wide(nth(EXTERNAL, 1), 8) == 4711);
	flush();
	CHECK(!completed && !count);
	puts("kernels");
}

static void copies(void)
{
	static const uint32_t ways[] = { 1 | 1 << 8 | 3 << 16, 1 | 2 << 8 | 3 << 16,
					 2 | 3 << 8 | 1 << 16, 8 | 3 << 8 | 3 << 16 };
	static char pageable[4096];
	uint64_t before;
	void *pinned;

	CU(cuMemAllocHost_v2, P(&pinned), 8192);
	CHECK(!PT(cuptiGetTimestamp, P(&before)));
	CU(cuMemcpyHtoDAsync_v2, memory, P(pageable), 4096, P(stream));
	CU(cuMemcpyHtoDAsync_v2, memory, P(pinned), 8192, P(stream));
	CU(cuMemcpyDtoH_v2, P(pageable), memory, 4);
	CU(cuMemcpyDtoDAsync_v2, memory, memory + 65536, 64, P(stream));
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(count == 4 && seen[COPY] == 4);
	for (unsigned i = 0; i < 4; i++) {
		static const uint64_t bytes[] = { 4096, 8192, 4, 64 };
		const void *c = nth(COPY, i);

		CHECK((word(c, 4) & 0xffffff) == ways[i] && wide(c, 8) == bytes[i]);
		check_times(c, 16, before);
	}
	CU(cuMemFreeHost, P(pinned));
	puts("copies");
}

static void fills(void)
{
	CU(cuMemsetD8Async, memory, 5, 1000, P(stream));
	CU(cuMemsetD2D32Async, memory, 64, 9, 4, 3, P(stream));
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(count == 2 && seen[FILL] == 2);
	CHECK(word(nth(FILL, 0), 4) == 5 && wide(nth(FILL, 0), 8) == 1000);
	CHECK(word(nth(FILL, 1), 4) == 9 && wide(nth(FILL, 1), 8) == 48);
	puts("fills");
}

/* What is captured isn't done; a graph is shown as a whole. */
static void graphs(void)
{
	void *graph, *exec;

	CU(cuStreamBeginCapture_v2, P(stream), 0);
	launch(1, 1);
	launch(1, 1);
	CU(cuStreamEndCapture, P(stream), P(&graph));
	CU(cuGraphInstantiateWithFlags, P(&exec), P(graph), 0);
	flush();
	CHECK(!count);
	CU(cuGraphLaunch, P(exec), P(stream));
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(count == 1 && seen[KERNEL] == 1);
	CHECK(!strcmp((const char *)(uintptr_t)wide(nth(KERNEL, 0), 104), "CUDA graph"));
	puts("graphs");
}

/* Half as fast, and of another beginning. */
static uint64_t own_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec) / 2 + (1ull << 50);
}

static void clocks(void)
{
	uint64_t before = own_clock();

	CHECK(!PT(cuptiActivityRegisterTimestampCallback, P(own_clock)));
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	check_times(nth(KERNEL, 0), 16, before);
	CHECK(wide(nth(DRIVER, 0), 16) <= own_clock());
	puts("a clock of the client's");
}

static void buffers(void)
{
	size_t dropped = 1;

	buffer_bytes = 400; /* for a kernel and its call */
	for (unsigned i = 0; i < 5; i++)
		launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(completed == 5 && count == 10);
	CHECK(!PT(cuptiActivityGetNumDroppedRecords, 0, 0, &dropped) && !dropped);
	buffer_bytes = 16;
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(!count);
	CHECK(!PT(cuptiActivityGetNumDroppedRecords, 0, 0, &dropped) && dropped == 2);
	buffer_bytes = 1 << 20;
	puts("buffers");
}

/* What was given before the end is shown after it. */
static void end(void)
{
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	CHECK(!PT(cuptiActivityDisable, DRIVER) && !PT(cuptiActivityDisable, KERNEL));
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(count == 2 && seen[KERNEL] == 1 && seen[DRIVER] == 1);
	CHECK(!PT(cuptiFinalize, 0));
	CU(cuMemsetD8Async, memory, 5, 1000, P(stream));
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(!count);
	puts("ended");
}

int main(void)
{
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	CHECK(driver);
	setup();
	start();
	kernels();
	copies();
	fills();
	graphs();
	clocks();
	buffers();
	end();
	return 0;
}
