/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_code.h"
#include "fake_events.h"
#include "fake_maps.h"
#include "fake_objects.h"
#include "fake_worker.h"
#include "zz_generated_words.h"

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

uint64_t fake_window(void)
{
	return (uint64_t)(uintptr_t)window;
}

/* What the device says of itself; 0 for all else. */
static const struct {
	int attribute, value;
} set[] = {
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
	{ CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536 },
	{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
	{ CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536 },
	{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000 },
	{ CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512 },
	{ CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1 },
	{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132 },
	{ CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 4 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048 },
	{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
	{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9 },
	{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472 },
	{ CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536 },
	{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
	{ CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1 },
	{ CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1 },
	{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448 },
	{ CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32 },
};

/* Puts the ways among few devices behind them, and returns how long all is. */
static uint64_t pairs(uint8_t *inventory, uint64_t at)
{
	at += fake.devices * sizeof(struct paracuda_inventory_device);
	if (fake.devices > FAKE_PAIRED)
		return at;
	for (uint32_t i = 0; i < fake.devices * fake.devices; i++) {
		memcpy(inventory + at, &fake.pair[i], sizeof(fake.pair[i]));
		at += sizeof(fake.pair[i]);
	}
	return at;
}

/* Three links, of which one has a field of its own in NVML and a known number, and a fabric. */
static void link_up(struct paracuda_inventory_device *device, uint32_t number)
{
	device->nvlinks = 3;
	device->nvlink_named = 1 << 1;
	device->nvlink_remote_link[1] = 7;
	device->nvlink_common_speed = 26000 + number;
	device->fabric_cluster[0] = 0x80;
	device->fabric_cluster[15] = (uint8_t)number;
	device->fabric_status = 1;
	device->fabric_clique = 2;
	device->fabric_health = 3;
	device->fabric_state = 4;
	device->fabric_summary = 5;
}

static uint64_t hello(const uint8_t *at, const uint64_t *w)
{
	uint8_t *to = fake_arena() + (w[AT_HELLO_inventory] & 0xffffffffffffff);
	uint64_t environment_bytes = w[AT_HELLO_environment_bytes];
	struct paracuda_inventory s = {
		.driver_version = fake.driver_version,
		.devices = fake.devices,
		.window_base = (uint64_t)(uintptr_t)window,
		.window_bytes = WINDOW_BYTES,
	};
	uint32_t id;

	if (environment_bytes < sizeof(fake.environment)) {
		memcpy(fake.environment,
		       fake_buffer(at, w[AT_HELLO_environment], environment_bytes, &id),
		       environment_bytes);
		fake.environment_bytes = (unsigned)environment_bytes;
	}
	memcpy(to, &s, sizeof(s));
	for (uint32_t d = 0; d < fake.devices && d < 64; d++) {
		static struct paracuda_inventory_device device;

		memset(&device, 0, sizeof(device));
		snprintf((char *)device.name, sizeof(device.name), "Fake GPU %u", d);
		for (unsigned i = 0; i < 16; i++)
			device.uuid[i] = (uint8_t)(0xa0 + i + 16 * d);
		device.luid_result = CUDA_ERROR_NOT_SUPPORTED;
		device.total_memory = WINDOW_BYTES;
		for (unsigned i = 0; i < sizeof(set) / sizeof(set[0]); i++)
			device.attribute[set[i].attribute] = set[i].value;
		device.attribute[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] += (int)d;
		if (fake.linked)
			link_up(&device, d);
		memcpy(to + sizeof(s) + d * sizeof(device), &device, sizeof(device));
	}
	return fake.lie_length ? 1ull << 40 : pairs(to, sizeof(s));
}

static bool within_device(const uint64_t *w)
{
	return w[AT_CopyBox_kind] == PARACUDA_BOX_DTOD;
}

static void box(const uint64_t *w, uint8_t *host)
{
	uint8_t *device = (uint8_t *)(uintptr_t)w[AT_CopyBox_device];
	uint8_t *other = within_device(w) ? (uint8_t *)(uintptr_t)w[AT_CopyBox_host] : host;
	bool out = w[AT_CopyBox_kind] == PARACUDA_BOX_DTOH;

	for (uint64_t z = 0; z < w[AT_CopyBox_depth]; z++)
		for (uint64_t y = 0; y < w[AT_CopyBox_height]; y++) {
			uint8_t *d = device + z * w[AT_CopyBox_slice] + y * w[AT_CopyBox_pitch];
			uint8_t *o =
				other + z * w[AT_CopyBox_host_slice] + y * w[AT_CopyBox_host_pitch];

			memcpy(out ? o : d, out ? d : o, w[AT_CopyBox_width]);
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

/* A copy between device memory and a buffer. */
struct copy {
	uint64_t host, host_bytes, bytes;
	uint8_t *device;
	bool is_part;
};

static struct copy copy_of(unsigned op, const uint64_t *w)
{
	switch (op) {
	case OP_CopyHtoD:
		return (struct copy){
			.host = w[AT_CopyHtoD_host],
			.host_bytes = w[AT_CopyHtoD_host_bytes],
			.bytes = w[AT_CopyHtoD_bytes],
			.device = (uint8_t *)(uintptr_t)w[AT_CopyHtoD_device],
			.is_part = w[AT_CopyHtoD_flags] & PARACUDA_COPY_FLAG_PART,
		};
	case OP_CopyDtoH:
		return (struct copy){
			.host = w[AT_CopyDtoH_host],
			.host_bytes = w[AT_CopyDtoH_host_bytes],
			.bytes = w[AT_CopyDtoH_bytes],
			.device = (uint8_t *)(uintptr_t)w[AT_CopyDtoH_device],
			.is_part = w[AT_CopyDtoH_flags] & PARACUDA_COPY_FLAG_PART,
		};
	default:
		return (struct copy){ .host = w[AT_CopyBox_host],
				      .host_bytes = w[AT_CopyBox_host_bytes] };
	}
}

static int copy(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w)
{
	struct copy x = copy_of(c->op, w);
	uint8_t *host;
	uint32_t id;

	if (c->op == OP_CopyBox && within_device(w)) {
		box(w, NULL);
		return 0;
	}
	host = fake_buffer(at, x.host, x.host_bytes, &id);
	if (!host)
		return x.is_part ? part(c, CUDA_ERROR_INVALID_VALUE) : CUDA_ERROR_INVALID_VALUE;
	if (c->op == OP_CopyBox)
		box(w, host);
	else if (c->op == OP_CopyHtoD && fake.fail_copy && !--fake.fail_copy)
		return CUDA_ERROR_ILLEGAL_STATE;
	else if (c->op == OP_CopyHtoD)
		memcpy(x.device, host, x.bytes);
	else
		memcpy(host, x.device, x.bytes);
	if (id)
		fake_unmap(id);
	return x.is_part ? part(c, 0) : 0;
}

static int run_session(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		       uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case PARACUDA_OP_HELLO:
		fake_say(out, outs, OUT_HELLO_bytes, hello(at, w));
		return 0;
	case PARACUDA_OP_UNMAP:
		fake_unmap((uint32_t)w[AT_UNMAP_map]);
		return 0;
	case OP_HostUnregister:
		fake_unmap((uint32_t)w[AT_HostUnregister_map]);
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

/* 0: there is no room. */
static uint64_t allocate(uint64_t bytes)
{
	uint64_t address = (uint64_t)(uintptr_t)window + allocated;

	if (bytes > WINDOW_BYTES - allocated)
		return 0;
	allocated += (bytes + 511) & ~(uint64_t)511;
	return address;
}

static int run_memory(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		      uint64_t *out, unsigned *outs)
{
	uint64_t address;

	switch (c->op) {
	case OP_cuMemAlloc_v2:
		address = allocate(w[AT_cuMemAlloc_v2_bytesize]);
		if (!address)
			return CUDA_ERROR_OUT_OF_MEMORY;
		fake_say(out, outs, OUT_cuMemAlloc_v2_dptr, address);
		return 0;
	case OP_cuMemAllocAsync:
		address = allocate(w[AT_cuMemAllocAsync_bytes]);
		if (!address)
			return CUDA_ERROR_OUT_OF_MEMORY;
		fake_say(out, outs, OUT_cuMemAllocAsync_address, address);
		return 0;
	case OP_cuMemGetInfo_v2:
		fake_say(out, outs, OUT_cuMemGetInfo_v2_free, WINDOW_BYTES - allocated);
		fake_say(out, outs, OUT_cuMemGetInfo_v2_total, WINDOW_BYTES);
		return 0;
	case OP_cuMemsetD8Async:
		memset((void *)(uintptr_t)w[AT_cuMemsetD8Async_dstDevice],
		       (int)w[AT_cuMemsetD8Async_uc], w[AT_cuMemsetD8Async_N]);
		return 0;
	case OP_cuMemcpyDtoDAsync_v2:
		memmove((void *)(uintptr_t)w[AT_cuMemcpyDtoDAsync_v2_dstDevice],
			(void *)(uintptr_t)w[AT_cuMemcpyDtoDAsync_v2_srcDevice],
			w[AT_cuMemcpyDtoDAsync_v2_ByteCount]);
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
		due[due_tail++ % 64] = w[AT_HostFunc_token];
		return 0;
	case OP_cuEventQuery:
	case OP_cuEventSynchronize:
		return fake_event(c);
	case OP_EventElapsed:
		fake_say(out, outs, OUT_EventElapsed_nanoseconds, 1500000);
		return 0;
	case OP_cuCtxGetStreamPriorityRange:
		fake_say(out, outs, OUT_cuCtxGetStreamPriorityRange_greatestPriority, (uint64_t)-5);
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
		result = fake_code(c, at, w, out, outs);
	if (result == ANOTHERS)
		result = fake_make(c, out, outs);
	if (result == ANOTHERS)
		result = fake_share(c, w, out, outs);
	if (result == ANOTHERS)
		result = run_memory(c, at, w, out, outs);
	return result == ANOTHERS ? run_streams(c, w, out, outs) : result;
}
