/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "exports/export_table.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/zz_generated_prototypes.h"
#include "context/context.h"
#include "devices/device.h"
#include "devices/peers.h"
#include "exports/integrity.h"
#include "exports/tools.h"
#include "exports/unsupported.h"
#include "exports/usage.h"
#include "paracuda_table.h"
#include "streams/activity.h"

#define FUNCTION(f) ((uintptr_t)(f))
typedef export_word word;

/* 6bd5fb6c: what the runtime needs beyond the public interface. */
static CUresult cudart_module(CUmodule *module, const void *wrapper)
{
	return cuModuleLoadFatBinary(module, wrapper);
}

static CUresult cudart_primary(CUcontext *ctx, CUdevice dev)
{
	ENTER();
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*ctx = context_primary(dev);
	return *ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult cudart_module_variables(CUmodule *module, const void *wrapper, void *names,
					void *values, uint32_t n)
{
	if (n && (names || values))
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuModuleLoadFatBinary(module, wrapper);
}

static void cudart_cleanup(size_t unused)
{
	(void)unused;
}

static CUresult cudart_module_raw(const void *image, CUmodule *module, void *names, void *values,
				  uint32_t n)
{
	if (n && (names || values))
		return CUDA_ERROR_NOT_SUPPORTED;
	return cuModuleLoadData(module, image);
}

static CUresult cudart_compilers(void)
{
	return CUDA_SUCCESS;
}

/* a094798c: switches of the runtime's profiling callbacks; all zero means that nobody listens. */
static uint64_t callbacks_first[1024], callbacks_second[14];

static void callbacks_event(uint32_t event, void *data)
{
	(void)event;
	(void)data;
}

static void callbacks_table1(void **table, size_t *count)
{
	*table = callbacks_first;
	*count = 1024;
}

static CUresult callbacks_nothing(void *a, void *b)
{
	(void)a;
	(void)b;
	return CUDA_SUCCESS;
}

static void callbacks_span(void *ctx, uint64_t *span)
{
	if (!ctx && span)
		*span = 0;
}

static void callbacks_table2(void **table, size_t *count)
{
	*table = callbacks_second;
	*count = 14;
}

/* 42d85a81: the calling thread's context. */
static CUresult tls_nothing(void)
{
	return CUDA_SUCCESS;
}

static CUresult tls_context(CUcontext *ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = context_current();
	return CUDA_SUCCESS;
}

/*
 * d4082055: the value for this process and its devices. It depends on the addresses of two tables.
 */
static const word cudart[13], integrity[3];

static CUresult integrity_check(uint32_t version, uint64_t seconds, uint64_t out[2])
{
	struct integrity_device list[DEVICES_MAX];
	struct integrity in = {
		.driver_version = (uint32_t)devices.driver_version,
		.version = version,
		.process = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.cudart_table = (uint64_t)(uintptr_t)cudart,
		.integrity_table = (uint64_t)(uintptr_t)integrity,
		.function = (uint64_t)(uintptr_t)integrity_check,
		.seconds = seconds,
	};
	unsigned count = state_check() ? 0 : devices.count;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		memcpy(list[i].uuid, devices.inventory[i]->uuid, 16);
		list[i].domain = device_number((int)i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
		list[i].bus = device_number((int)i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
		list[i].device = device_number((int)i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
	}
	integrity_value(&in, list, count, out);
	return CUDA_SUCCESS;
}

static CUresult integrity_enable(int on)
{
	(void)on;
	return CUDA_SUCCESS;
}

/* 263e8860: whether a context is a tool's wrapper round another. None is. */
static CUresult checks_unsupported(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult checks_wrapped(CUcontext ctx, uint32_t *wrapped, const void **inner)
{
	(void)ctx;
	(void)inner;
	if (wrapped)
		*wrapped = 0;
	return CUDA_SUCCESS;
}

static uint32_t checks_zero(void)
{
	return 0;
}

/* 195bcbf4, 0ca50b8c, b10541e1 */
static CUresult other_unknown(void)
{
	static int said;

	return unsupported("a function of export table 195bcbf4 or b10541e1", &said);
}

static CUresult bypass_create(CUcontext *ctx, unsigned flags, CUdevice dev)
{
	return cuCtxCreate_v2(ctx, flags, dev);
}

static CUresult device_count(int *count)
{
	return cuDeviceGetCount(count);
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	return cuDeviceGet(device, ordinal);
}

static const word cudart[13] = {
	13 * sizeof(word),
	FUNCTION(cudart_module),
	FUNCTION(cudart_primary),
	0,
	0,
	0,
	FUNCTION(cudart_module_variables),
	FUNCTION(cudart_cleanup),
	FUNCTION(cudart_module_raw),
	0,
	0,
	0,
	FUNCTION(cudart_compilers),
};
static const word callbacks[7] = {
	7 * sizeof(word),	    FUNCTION(callbacks_event),
	FUNCTION(callbacks_table1), FUNCTION(callbacks_nothing),
	FUNCTION(callbacks_span),   FUNCTION(callbacks_nothing),
	FUNCTION(callbacks_table2),
};
static const word tls[4] = { 4 * sizeof(word), FUNCTION(tls_nothing), FUNCTION(tls_context),
			     FUNCTION(tls_nothing) };
static const word storage[4] = { FUNCTION(storage_put), FUNCTION(storage_delete),
				 FUNCTION(storage_get), 0 };
static const word integrity[3] = { 3 * sizeof(word), FUNCTION(integrity_check),
				   FUNCTION(integrity_enable) };
static const word context_checks[17] = {
	17 * sizeof(word),
	FUNCTION(checks_unsupported),
	FUNCTION(checks_wrapped),
	FUNCTION(checks_zero),
};
static const word heap[3] = { 3 * sizeof(word), FUNCTION(other_unknown), FUNCTION(other_unknown) };
static const word bypass[2] = { 2 * sizeof(word), FUNCTION(bypass_create) };
static const word device[26] = {
	26 * sizeof(word),
	FUNCTION(device_get),
	FUNCTION(device_count),
	[3 ... 25] = FUNCTION(other_unknown),
};

static const word own[7] = { sizeof(struct paracuda_table), FUNCTION(device_link),
			     FUNCTION(activity_watch),	    FUNCTION(device_usage),
			     FUNCTION(device_nvlinks),	    FUNCTION(device_ways),
			     FUNCTION(device_fabric) };

_Static_assert(sizeof(own) == sizeof(struct paracuda_table), "Paracuda's own table");

#define UUID(...)                   \
	{                           \
		{                   \
			__VA_ARGS__ \
		}                   \
	}
static const struct {
	CUuuid id;
	const word *table;
} tables[EXPORT_TABLES] = {
	[EXPORT_TABLE_CUDART] = { UUID(0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87,
				       0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9),
				  cudart },
	[EXPORT_TABLE_CALLBACKS] = { UUID(0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93,
					  0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66),
				     callbacks },
	[EXPORT_TABLE_TLS] = { UUID(0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98,
				    0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc),
			       tls },
	[EXPORT_TABLE_STORAGE] = { UUID(0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3,
					0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93),
				   storage },
	[EXPORT_TABLE_INTEGRITY] = { UUID(0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d,
					  0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2),
				     integrity },
	[EXPORT_TABLE_CONTEXT_CHECKS] = { UUID(0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92,
					       0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e),
					  context_checks },
	[EXPORT_TABLE_IDENTITY] = { UUID(0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6,
					 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2),
				    export_identity },
	[EXPORT_TABLE_HEAP] = { UUID(0x19, 0x5b, 0xcb, 0xf4, 0xd6, 0x7d, 0x02, 0x4a, 0xac, 0xc5,
				     0x1d, 0x29, 0xce, 0xa6, 0x31, 0xae),
				heap },
	[EXPORT_TABLE_CONTEXT_BYPASS] = { UUID(0x0c, 0xa5, 0x0b, 0x8c, 0x10, 0x04, 0x92, 0x9a, 0x89,
					       0xa7, 0xd0, 0xdf, 0x10, 0xe7, 0x72, 0x86),
					  bypass },
	[EXPORT_TABLE_DEVICE] = { UUID(0xb1, 0x05, 0x41, 0xe1, 0xf7, 0xc7, 0xc7, 0x4a, 0x9f, 0x64,
				       0xf2, 0x23, 0xbe, 0x99, 0xf1, 0xe2),
				  device },
	[EXPORT_TABLE_FUNCTIONS] = { UUID(0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83,
					  0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e),
				     export_functions },
	[EXPORT_TABLE_CLUSTERS] = { UUID(0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26,
					 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca),
				    export_clusters },
	[EXPORT_TABLE_OWN] = { UUID(PARACUDA_TABLE_ID), own },
};

/*
 * f8cff951: a runtime that gets this table expects all of it; without it, the first table is enough
 * for it.
 */
static const CUuuid requirements = UUID(0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2,
					0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9);

EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < EXPORT_TABLES; i++) {
		if (!memcmp(&tables[i].id, pExportTableId, sizeof(CUuuid))) {
			*ppExportTable = tables[i].table;
			return CUDA_SUCCESS;
		}
	}
	*ppExportTable = NULL;
	if (!memcmp(&requirements, pExportTableId, sizeof(CUuuid)))
		return CUDA_ERROR_NOT_FOUND;
	tools_asked(pExportTableId, __builtin_return_address(0));
	return CUDA_ERROR_INVALID_VALUE;
}
