/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_events.h"
#include "fake_maps.h"
#include "fake_objects.h"
#include "fake_worker.h"

#define WINDOW_BYTES ((size_t)256 << 20)

static uint8_t *window;
static size_t allocated;

/* Host functions: one is due at a time. */
static uint64_t due[64];
static unsigned due_head, due_tail;
static uint32_t announced;
static bool running;

void fake_device_init(void)
{
	window = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static uint64_t hello(const uint8_t *at, const uint64_t *w)
{
	uint8_t *to = fake_arena() + (w[2] & 0xffffffffffffff);
	struct paracuda_snapshot s = {
		.driver_version = fake.driver_version,
		.devices = fake.devices,
		.window_base = (uint64_t)(uintptr_t)window,
		.window_bytes = WINDOW_BYTES,
	};
	static const struct {
		int attribute, value;
	} set[] = {
		{ 1, 1024 },	    { 2, 1024 },   { 3, 1024 },	    { 4, 64 },	  { 5, 2147483647 },
		{ 6, 65535 },	    { 7, 65535 },  { 8, 49152 },    { 9, 65536 }, { 10, 32 },
		{ 11, 2147483647 }, { 12, 65536 }, { 13, 1980000 }, { 14, 512 },  { 15, 1 },
		{ 16, 132 },	    { 19, 1 },	   { 31, 1 },	    { 33, 4 },	  { 34, 1 },
		{ 39, 2048 },	    { 41, 1 },	   { 50, 0 },	    { 75, 9 },	  { 76, 0 },
		{ 81, 233472 },	    { 82, 65536 }, { 83, 1 },	    { 88, 1 },	  { 91, 1 },
		{ 97, 232448 },	    { 106, 32 },
	};
	uint32_t id;

	if (w[1] < sizeof(fake.environment)) {
		memcpy(fake.environment, fake_buffer(at, w[0], w[1], &id), w[1]);
		fake.environment_bytes = (unsigned)w[1];
	}
	memcpy(to, &s, sizeof(s));
	for (uint32_t d = 0; d < fake.devices && d < 64; d++) {
		static struct paracuda_snapshot_device device;

		memset(&device, 0, sizeof(device));
		snprintf((char *)device.name, sizeof(device.name), "Fake GPU %u", d);
		for (unsigned i = 0; i < 16; i++)
			device.uuid[i] = (uint8_t)(0xa0 + i + 16 * d);
		device.luid_result = CUDA_ERROR_NOT_SUPPORTED;
		device.total_memory = WINDOW_BYTES;
		for (unsigned i = 0; i < sizeof(set) / sizeof(set[0]); i++)
			device.attribute[set[i].attribute] = set[i].value;
		device.attribute[33] += (int)d;
		memcpy(to + sizeof(s) + d * sizeof(device), &device, sizeof(device));
	}
	return fake.lie_length ? 1ull << 40 :
				 sizeof(s) + fake.devices * sizeof(struct paracuda_snapshot_device);
}

static uint64_t describe(uint64_t reference, uint64_t room)
{
	struct {
		struct paracuda_function_record record;
		uint32_t parameter[8];
		char name[8];
	} r = {
		.record = { .parameters = 4,
			    .parameter_bytes = 28,
			    .attribute = { fake.function_threads, [8] = 49152 },
			    .name_bytes = 3 },
		.parameter = { 0, 8, 8, 8, 16, 8, 24, 4 },
		.name = "add",
	};

	if (fake.lie_record)
		r.parameter[2] = 0xfffffff0;
	if (room >= sizeof(r))
		memcpy(fake_arena() + (reference & 0xffffffffffffff), &r, sizeof(r));
	return fake.lie_length ? 1ull << 40 : sizeof(r.record) + sizeof(r.parameter) + 3;
}

static int launch(const uint8_t *at, const uint64_t *w)
{
	struct {
		float *a, *b, *c;
		int n;
	} p;
	uint64_t threads = (w[2] & 0xffffffff) * (w[3] >> 32);

	fake_count(&fake.launches);
	if ((uint32_t)w[5] > 49152)
		return CUDA_ERROR_INVALID_VALUE;
	if (w[6] != 28)
		return 0;
	memcpy(&p, at + sizeof(struct paracuda_command) + 56, 28);
	for (int i = 0; i < p.n && (uint64_t)i < threads; i++)
		p.c[i] = p.a[i] + p.b[i];
	return 0;
}

static void box(const uint64_t *w, uint8_t *host)
{
	uint8_t *device = (uint8_t *)(uintptr_t)w[0];
	uint8_t *other = w[10] == 2 ? (uint8_t *)(uintptr_t)w[3] : host;

	for (uint64_t z = 0; z < w[9]; z++)
		for (uint64_t y = 0; y < w[8]; y++) {
			uint8_t *d = device + z * w[2] + y * w[1], *o = other + z * w[6] + y * w[5];

			memcpy(w[10] == 1 ? o : d, w[10] == 1 ? d : o, w[7]);
		}
}

/*
 * One host function at a time: the next is announced when the guest says that the one before has
 * returned.
 */
bool fake_host_functions(uint32_t done)
{
	if (running && done == announced)
		running = false;
	if (running || due_head == due_tail)
		return false;
	running = true;
	fake_answer(PARACUDA_HOST_SLOT, ++announced, 0, &due[due_head++ % 64], 1);
	return true;
}

/* The errors of parts, by slot: given to JOIN. */
static int part_error[PARACUDA_SLOT_COUNT];

static int part(const struct paracuda_command *c, int result)
{
	fake.parts++;
	if (fake.fail_part && !--fake.fail_part)
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (!part_error[c->slot])
		part_error[c->slot] = result;
	return 0;
}

static int join(const struct paracuda_command *c)
{
	int result = part_error[c->slot];

	fake.joins++;
	part_error[c->slot] = 0;
	return result;
}

static int copy(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w)
{
	bool is_part = c->op != OP_CopyBox && w[5] & PARACUDA_COPY_FLAG_PART;
	uint8_t *host, *device = (uint8_t *)(uintptr_t)w[0];
	uint32_t id;

	if (c->op == OP_CopyBox && w[10] == 2) {
		box(w, NULL);
		return 0;
	}
	host = fake_buffer(at, w[c->op == OP_CopyBox ? 3 : 1], w[c->op == OP_CopyBox ? 4 : 2], &id);
	if (!host)
		return is_part ? part(c, CUDA_ERROR_INVALID_VALUE) : CUDA_ERROR_INVALID_VALUE;
	if (c->op == OP_CopyBox)
		box(w, host);
	else if (c->op == OP_CopyHtoD && fake.fail_copy && !--fake.fail_copy)
		return CUDA_ERROR_ILLEGAL_STATE;
	else if (c->op == OP_CopyHtoD)
		memcpy(device, host, w[3]);
	else
		memcpy(host, device, w[3]);
	if (id)
		fake_unmap(id);
	return is_part ? part(c, 0) : 0;
}

static void give_back(const uint8_t *at, uint64_t reference, uint64_t bytes)
{
	uint32_t id;

	fake_buffer(at, reference, bytes, &id);
	if (id)
		fake_unmap(id);
}

/* Managed variables: so many bytes, of which the first is one variable with an initial value. */
#define MANAGED_BYTES 5000
#define MANAGED_VALUE 42

static uint64_t managed_at;

/* An image whose text begins so has managed variables. */
static bool has_managed(const uint8_t *at, uint64_t reference, uint64_t bytes)
{
	static const char text[] = ".version 8.0 // managed";
	uint32_t id;
	const void *image = fake_buffer(at, reference, bytes, &id);

	return image && bytes >= sizeof(text) && !memcmp(image, text, sizeof(text) - 1);
}

static int load_managed(uint64_t address, uint64_t *out, unsigned *outs)
{
	if (!fake_mapped(address, MANAGED_BYTES))
		return CUDA_ERROR_INVALID_VALUE;
	managed_at = address;
	*(uint8_t *)(uintptr_t)address = MANAGED_VALUE;
	out[0] = fake_handle();
	*outs = 3;
	return 0;
}

static int get_managed(uint64_t *out, unsigned *outs)
{
	out[0] = fake.lie_managed ? (uint64_t)(uintptr_t)window : managed_at;
	out[1] = 1;
	*outs = 2;
	return 0;
}

static int run_session(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		       uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case PARACUDA_OP_HELLO:
		out[(*outs)++] = hello(at, w);
		return 0;
	case PARACUDA_OP_UNMAP:
	case OP_HostUnregister:
		fake_unmap((uint32_t)w[0]);
		return 0;
	case OP_HostKeep:
		fake.keeps++;
		return 0;
	case PARACUDA_OP_JOIN:
		return join(c);
	case PARACUDA_OP_THREAD_EXIT:
		fake_count(&fake.thread_exits);
		return 0;
	default:
		return ANOTHERS;
	}
}

static int run_code(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		    uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case OP_cuModuleLoadData:
	case OP_cuLibraryLoadData:
		if (has_managed(at, w[0], w[1]))
			return CUDA_ERROR_NOT_READY;
		give_back(at, w[0], w[1]);
		out[0] = fake_handle();
		out[1] = 7;
		*outs = 3;
		return 0;
	case OP_ManagedBytes:
		out[(*outs)++] = fake.lie_length ? 1ull << 60 : MANAGED_BYTES;
		return 0;
	case OP_ModuleLoadManaged:
	case OP_LibraryLoadManaged:
		return load_managed(w[4], out, outs);
	case OP_cuModuleGetGlobal_v2:
	case OP_cuLibraryGetManaged:
		return get_managed(out, outs);
	case OP_cuLibraryGetModule: /* the same whenever it is asked for */
		out[(*outs)++] = w[0] | 1ull << 40;
		return 0;
	case OP_FuncDescribe:
	case OP_KernelDescribe:
		out[(*outs)++] = describe(w[1], w[2]);
		return 0;
	case OP_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
		out[(*outs)++] = 2048 / w[1];
		return 0;
	case OP_cuLaunchKernel:
		return launch(at, w);
	default:
		return ANOTHERS;
	}
}

static int run_memory(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		      uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case OP_cuMemAlloc_v2:
	case OP_cuMemAllocAsync:
		if (w[0] > WINDOW_BYTES - allocated)
			return CUDA_ERROR_OUT_OF_MEMORY;
		out[(*outs)++] = (uint64_t)(uintptr_t)window + allocated;
		allocated += (w[0] + 511) & ~(uint64_t)511;
		return 0;
	case OP_cuMemGetInfo_v2:
		out[0] = WINDOW_BYTES - allocated;
		out[1] = WINDOW_BYTES;
		*outs = 2;
		return 0;
	case OP_cuMemsetD8Async:
		memset((void *)(uintptr_t)w[0], (int)w[1], w[2]);
		return 0;
	case OP_cuMemcpyDtoDAsync_v2:
		memmove((void *)(uintptr_t)w[0], (void *)(uintptr_t)w[1], w[2]);
		return 0;
	case OP_CopyHtoD:
	case OP_CopyDtoH:
	case OP_CopyBox:
		return copy(c, at, w);
	default:
		return ANOTHERS;
	}
}

/* Streams and events; whatever nobody knows succeeds. */
static int run_streams(const struct paracuda_command *c, const uint64_t *w, uint64_t *out,
		       unsigned *outs)
{
	switch (c->op) {
	case OP_cuCtxSynchronize:
	case OP_cuStreamSynchronize:
		fake_count(&fake.syncs);
		return 0;
	case OP_HostFunc:
		due[due_tail++ % 64] = w[1];
		return 0;
	case OP_cuEventQuery:
	case OP_cuEventSynchronize:
		return fake_event(c);
	case OP_EventElapsed:
		out[(*outs)++] = 1500000;
		return 0;
	case OP_cuCtxGetStreamPriorityRange:
		out[1] = (uint64_t)-5;
		*outs = 2;
		return 0;
	default:
		return 0;
	}
}

int fake_execute(const struct paracuda_command *c, const uint8_t *at, uint64_t *out, unsigned *outs)
{
	uint64_t w[16] = { 0 };
	size_t bytes = c->size - sizeof(*c);
	int result;

	memcpy(w, at + sizeof(*c), bytes < sizeof(w) ? bytes : sizeof(w));
	if (__atomic_load_n(&fake.fail_op, __ATOMIC_RELAXED) == c->op) {
		__atomic_store_n(&fake.fail_op, 0, __ATOMIC_RELAXED);
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	result = run_session(c, at, w, out, outs);
	if (result == ANOTHERS)
		result = run_code(c, at, w, out, outs);
	if (result == ANOTHERS)
		result = fake_make(c, out, outs);
	if (result == ANOTHERS)
		result = fake_share(c, w, out, outs);
	if (result == ANOTHERS)
		result = run_memory(c, at, w, out, outs);
	return result == ANOTHERS ? run_streams(c, w, out, outs) : result;
}
