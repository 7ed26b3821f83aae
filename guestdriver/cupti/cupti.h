/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's activity interface as far as this library offers it: results, kinds and records, as in
 * CUPTI 12 and 13.
 */
#ifndef PARACUDA_CUPTI_H
#define PARACUDA_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum cupti {
	CUPTI_SUCCESS = 0,
	CUPTI_INVALID_PARAMETER = 1,
	CUPTI_MAX_LIMIT_REACHED = 12,
	CUPTI_NOT_INITIALIZED = 15,
	CUPTI_QUEUE_EMPTY = 18,
	CUPTI_INVALID_KIND = 21,
	CUPTI_NOT_SUPPORTED = 27,
	CUPTI_MULTIPLE_SUBSCRIBERS = 39,
};

enum kind {
	KIND_COPY = 1,
	KIND_FILL = 2,
	KIND_KERNEL_ALONE = 3,
	KIND_DRIVER = 4,
	KIND_KERNEL = 10,
	KIND_EXTERNAL = 39,
};

#define KINDS_OF_KERNELS (1ull << KIND_KERNEL | 1ull << KIND_KERNEL_ALONE)

/* After these fields a record is 0: later versions of CUPTI have more fields there. */
struct kernel_record {
	uint32_t kind;
	uint8_t cache, shared_config;
	uint16_t registers;
	uint32_t cache_global[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t shared_static, shared_dynamic;
	uint32_t local, local_total, correlation;
	int64_t number; /* of the launch */
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t more[120];
};

struct copy_record {
	uint32_t kind;
	uint8_t way, from, to, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint8_t more[80];
};

struct fill_record {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory;
	uint8_t more[76];
};

struct call_record {
	uint32_t kind, function;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

struct external_record {
	uint32_t kind, external;
	uint64_t number;
	uint32_t correlation, reserved;
};

_Static_assert(offsetof(struct kernel_record, grid) == 52, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct kernel_record, correlation) == 92, "CUpti_ActivityKernel");
_Static_assert(offsetof(struct kernel_record, name) == 104, "CUpti_ActivityKernel");
_Static_assert(sizeof(struct kernel_record) == 256, "CUpti_ActivityKernel, and room");
_Static_assert(offsetof(struct copy_record, correlation) == 44, "CUpti_ActivityMemcpy");
_Static_assert(sizeof(struct copy_record) == 128, "CUpti_ActivityMemcpy, and room");
_Static_assert(offsetof(struct fill_record, memory) == 50, "CUpti_ActivityMemset");
_Static_assert(sizeof(struct fill_record) == 128, "CUpti_ActivityMemset, and room");
_Static_assert(sizeof(struct call_record) == 40, "CUpti_ActivityAPI");
_Static_assert(sizeof(struct external_record) == 24, "CUpti_ActivityExternalCorrelation");

#endif
