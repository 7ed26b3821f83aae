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

#include "../../guestdriver/cupti/cupti.h"

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition); \
			exit(1);                                                          \
		}                                                                         \
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

/* Other numbers of CUPTI's than the library has names for. */
enum { KIND_RUNTIME = 5, DOMAIN_DRIVER = 1, DOMAIN_RESOURCE = 3, CALL_LAUNCH_KERNEL = 307 };
enum { MOST_KINDS = 64, MOST_RECORDS = 256 };

union record {
	uint32_t kind;
	struct kernel_record kernel;
	struct copy_record copy;
	struct fill_record fill;
	struct call_record call;
	struct external_record external;
};

static size_t buffer_bytes = 1 << 20;
static unsigned requested, completed, seen[MOST_KINDS];
static union record records[MOST_RECORDS];
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
	union record *record = NULL;

	(void)context;
	(void)stream;
	CHECK(bytes == buffer_bytes && valid <= bytes);
	completed++;
	while (!PT(cuptiActivityGetNextRecord, P(buffer), valid, &record)) {
		size_t room = (size_t)(buffer + valid - (uint8_t *)record);

		CHECK(count < MOST_RECORDS && record->kind < MOST_KINDS);
		seen[record->kind]++;
		memcpy(&records[count++], record, room < sizeof(*record) ? room : sizeof(*record));
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
static const union record *nth(uint32_t kind, unsigned i)
{
	for (unsigned k = 0; k < count; k++)
		if (records[k].kind == kind && !i--)
			return &records[k];
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
	static const unsigned kinds[] = { KIND_COPY, KIND_FILL, KIND_DRIVER, KIND_KERNEL,
					  KIND_EXTERNAL };
	void *subscriber, *other;
	uint32_t version;

	CHECK(!PT(cuptiGetVersion, P(&version)) && version >= 120000);
	CHECK(!PT(cuptiSubscribe, P(&subscriber), 0, 0));
	CHECK(PT(cuptiSubscribe, P(&other), 0, 0) == CUPTI_MULTIPLE_SUBSCRIBERS);
	CHECK(!PT(cuptiEnableCallback, 1, P(subscriber), DOMAIN_RESOURCE, 1));
	CHECK(PT(cuptiEnableDomain, 1, P(subscriber), DOMAIN_DRIVER) == CUPTI_NOT_SUPPORTED);
	CHECK(!PT(cuptiActivityRegisterCallbacks, P(request), P(complete)));
	CHECK(PT(cuptiActivityEnable, KIND_RUNTIME) == CUPTI_INVALID_KIND);
	for (unsigned i = 0; i < 5; i++)
		CHECK(!PT(cuptiActivityEnable, kinds[i]));
	puts("started");
}

static void check_times(uint64_t start, uint64_t end, uint64_t since)
{
	CHECK(start >= since && start <= end);
}

static void kernels(void)
{
	uint64_t before, last;
	const struct kernel_record *first, *second;
	const struct external_record *outer;
	const struct call_record *call;

	CHECK(!PT(cuptiGetTimestamp, P(&before)));
	launch(3, 64);
	CHECK(!PT(cuptiActivityPushExternalCorrelationId, 3, 4711));
	CHECK(!PT(cuptiActivityPushExternalCorrelationId, 3, 4712));
	launch(2, 32);
	CHECK(!PT(cuptiActivityPopExternalCorrelationId, 3, P(&last)) && last == 4712);
	launch(1, 1);
	CHECK(!PT(cuptiActivityPopExternalCorrelationId, 3, 0));
	CHECK(PT(cuptiActivityPopExternalCorrelationId, 3, 0) == CUPTI_QUEUE_EMPTY);
	CU(cuStreamSynchronize, P(stream));
	CHECK(requested == 1); /* PyTorch doesn't flush where none was */
	flush();
	CHECK(completed == 1 && count == 8 && seen[KIND_KERNEL] == 3 && seen[KIND_DRIVER] == 3 &&
	      seen[KIND_EXTERNAL] == 2);
	first = &nth(KIND_KERNEL, 0)->kernel;
	check_times(first->start, first->end, before);
	CHECK(first->grid[0] == 3 && first->grid[1] == 1 && first->block[0] == 64);
	CHECK(!strcmp(first->name, "seven"));
	second = &nth(KIND_KERNEL, 1)->kernel;
	call = &nth(KIND_DRIVER, 1)->call;
	CHECK(call->function == CALL_LAUNCH_KERNEL && call->correlation == second->correlation);
	CHECK(call->start >= before && call->start <= second->start);
	outer = &nth(KIND_EXTERNAL, 0)->external;
	CHECK(outer->number == 4712 && outer->correlation == second->correlation);
	CHECK(nth(KIND_EXTERNAL, 1)->external.number == 4711);
	flush();
	CHECK(!completed && !count);
	puts("kernels");
}

static void copies(void)
{
	/* From where to where, in CUPTI's numbers: pageable memory is 1, pinned 2, device's 3. */
	static const struct {
		uint8_t way, from, to;
		uint64_t bytes;
	} want[] = { { 1, 1, 3, 4096 }, { 1, 2, 3, 8192 }, { 2, 3, 1, 4 }, { 8, 3, 3, 64 } };
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
	CHECK(count == 4 && seen[KIND_COPY] == 4);
	for (unsigned i = 0; i < 4; i++) {
		const struct copy_record *c = &nth(KIND_COPY, i)->copy;

		CHECK(c->way == want[i].way && c->from == want[i].from && c->to == want[i].to &&
		      c->bytes == want[i].bytes);
		check_times(c->start, c->end, before);
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
	CHECK(count == 2 && seen[KIND_FILL] == 2);
	CHECK(nth(KIND_FILL, 0)->fill.value == 5 && nth(KIND_FILL, 0)->fill.bytes == 1000);
	CHECK(nth(KIND_FILL, 1)->fill.value == 9 && nth(KIND_FILL, 1)->fill.bytes == 48);
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
	CHECK(count == 1 && seen[KIND_KERNEL] == 1);
	CHECK(!strcmp(nth(KIND_KERNEL, 0)->kernel.name, "CUDA graph"));
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
	const struct kernel_record *kernel;

	CHECK(!PT(cuptiActivityRegisterTimestampCallback, P(own_clock)));
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	kernel = &nth(KIND_KERNEL, 0)->kernel;
	check_times(kernel->start, kernel->end, before);
	CHECK(nth(KIND_DRIVER, 0)->call.end <= own_clock());
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
	CHECK(!PT(cuptiActivityDisable, KIND_DRIVER) && !PT(cuptiActivityDisable, KIND_KERNEL));
	launch(1, 1);
	CU(cuStreamSynchronize, P(stream));
	flush();
	CHECK(count == 2 && seen[KIND_KERNEL] == 1 && seen[KIND_DRIVER] == 1);
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
