/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of graphs: what they allocate, the addresses of their copies, host memory that is pinned for them. */
#define _GNU_SOURCE
#include "base/page.h"
#include "base/table.h"
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "copies/copy.h"
#include "devices/device.h"
#include "graphs/graph.h"
#include "streams/capture.h"
#include "transport/buffer.h"

CUresult graph_memory_enter(uint64_t base, uint64_t bytes)
{
	struct context *c = context_owner();
	struct memory m = {
		.base = base, .bytes = bytes, .kind = MEMORY_DEVICE, .device = c->device, .context = c, .graph = true,
	};

	if (!base || base + bytes < base)
		return CUDA_ERROR_UNKNOWN;
	return memory_enter(&m) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* By graph. That there is no memory to note it in costs no more than that an error comes late. */
static struct table noted = TABLE_INIT;

void graph_memory_note(uint64_t graph)
{
	if (graph)
		table_put(&noted, graph, &noted);
}

bool graph_has_memory(uint64_t graph)
{
	return table_find(&noted, graph) != NULL;
}

void graph_memory_forget(uint64_t graph)
{
	if (graph_has_memory(graph))
		table_take(&noted, graph);
}

/* Ordinary memory is shown to the host piece by piece, since one MAP holds no more. */
#define PIECE ((uint64_t)PARACUDA_RUNS_PER_MAP * 4096)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void capture_pins_begin(void)
{
	pthread_mutex_lock(&lock);
}

void capture_pins_end(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * Makes the pages that are at these addresses now what graphs find there. They stay until others are shown there: which
 * pages a program has at an address may change without this library knowing, and graphs know addresses only.
 */
static CUresult show(uint64_t base, uint64_t bytes, uint32_t *map)
{
	CUresult result = map_memory((void *)(uintptr_t)base, bytes, PARACUDA_MAP_FLAG_WRITE, map);
	struct request r;

	if (result == CUDA_ERROR_INVALID_VALUE)	/* not to be written */
		result = map_memory((void *)(uintptr_t)base, bytes, 0, map);
	if (result)
		return result == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : result;
	request_init(&r, OP_HostPageable);
	r.exact = true;
	request_word(&r, *map);
	request_word(&r, base);
	request_word(&r, bytes);
	result = channel_call(&r, NULL, 0);
	if (result) {
		request_init(&r, PARACUDA_OP_UNMAP);
		r.always = true;
		request_word(&r, *map);
		channel_call(&r, NULL, 0);
	}
	return result;
}

CUresult capture_pin(uint64_t address, uint64_t *bytes, uint32_t *map, uint64_t *offset)
{
	uint64_t base = page_begin(address);
	struct memory m;

	if (memory_find(address, &m) && memory_on_host(&m)) {
		for (unsigned i = 0; i < m.registrations_count; i++) {
			const struct registration *g = &m.registrations[i];

			if (address - g->base >= g->bytes)
				continue;
			*map = g->map;
			*offset = g->offset + (address - g->base);
			if (*bytes > g->bytes - (address - g->base))
				*bytes = g->bytes - (address - g->base);
			return CUDA_SUCCESS;
		}
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (*bytes > PIECE - page_bytes())
		*bytes = PIECE - page_bytes();
	*offset = address - base;
	return show(base, page_end(address + *bytes) - base, map);
}

/* The same for a node, which names memory by its address. */
static CUresult pin_all(uint64_t address, uint64_t bytes)
{
	CUresult result = CUDA_SUCCESS;

	capture_pins_begin();
	while (!result && bytes) {
		uint64_t part = bytes, offset;
		uint32_t map;

		result = capture_pin(address, &part, &map, &offset);
		address += part;
		bytes -= part;
	}
	capture_pins_end();
	return result;
}

/* Where a side of a copy begins, and what it needs to be reached when the graph runs. */
static CUresult side(unsigned type, const void *host, CUdeviceptr device, uint64_t offset, uint64_t span, uint64_t *out)
{
	struct side s;
	CUresult result;

	if (type != MEMORYTYPE_HOST && type != MEMORYTYPE_DEVICE && type != MEMORYTYPE_UNIFIED)
		return type == MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	*out = (type == MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device) + offset;
	result = side_find(*out, span, type == MEMORYTYPE_DEVICE ? SIDE_DEVICE : SIDE_ANY, &s);
	return result || s.device || s.pinned || s.several ? result : pin_all(*out, span);
}

CUresult graph_copy_words(const CUDA_MEMCPY3D *c, uint64_t word[9])
{
	uint64_t src_pitch = c->srcPitch ? c->srcPitch : c->srcXInBytes + c->WidthInBytes;
	uint64_t dst_pitch = c->dstPitch ? c->dstPitch : c->dstXInBytes + c->WidthInBytes;
	uint64_t src_rows = c->srcHeight ? c->srcHeight : c->srcY + c->Height;
	uint64_t dst_rows = c->dstHeight ? c->dstHeight : c->dstY + c->Height;
	uint64_t src_slice, dst_slice, src_span, dst_span;
	CUresult result;

	if (!c->WidthInBytes || !c->Height || !c->Depth || src_pitch < c->WidthInBytes || dst_pitch < c->WidthInBytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(src_pitch, src_rows, &src_slice) || __builtin_mul_overflow(dst_pitch, dst_rows, &dst_slice) ||
	    __builtin_mul_overflow(src_slice, c->Depth, &src_span) || __builtin_mul_overflow(dst_slice, c->Depth, &dst_span))
		return CUDA_ERROR_INVALID_VALUE;
	src_span = src_slice * (c->Depth - 1) + src_pitch * (c->Height - 1) + c->WidthInBytes;
	dst_span = dst_slice * (c->Depth - 1) + dst_pitch * (c->Height - 1) + c->WidthInBytes;
	result = side(c->srcMemoryType, c->srcHost, c->srcDevice,
		      c->srcZ * src_slice + c->srcY * src_pitch + c->srcXInBytes, src_span, &word[3]);
	if (!result)
		result = side(c->dstMemoryType, c->dstHost, c->dstDevice,
			      c->dstZ * dst_slice + c->dstY * dst_pitch + c->dstXInBytes, dst_span, &word[0]);
	word[1] = dst_pitch;
	word[2] = dst_slice;
	word[4] = src_pitch;
	word[5] = src_slice;
	word[6] = c->WidthInBytes;
	word[7] = c->Height;
	word[8] = c->Depth;
	return result;
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	uint64_t out;
	CUresult result;

	ENTER();
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	result = call_GraphMemory(device_host(device), (unsigned)attr, &out);
	if (!result)
		*(cuuint64_t *)value = out;
	return result;
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	ENTER();
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	return call_GraphMemorySet(device_host(device), (unsigned)attr, *(cuuint64_t *)value);
}
