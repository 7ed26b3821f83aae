/* SPDX-License-Identifier: Apache-2.0 */
/* The check value that CUDA runtimes from 11.6 compare (export table d4082055). */
#ifndef PARACUDA_INTEGRITY_H
#define PARACUDA_INTEGRITY_H

#include <stdint.h>

#include "abi/cuda_abi.h"

/* What the value is made from, apart from the devices. */
struct integrity {
	uint32_t driver_version;
	uint32_t version;
	uint32_t process;
	uint32_t thread;
	uint64_t cudart_table;
	uint64_t integrity_table;
	uint64_t function;
	uint64_t seconds;
};

struct integrity_device {
	uint8_t uuid[16];
	int32_t domain;
	int32_t bus;
	int32_t device;
};

void integrity_value(const struct integrity *in, const struct integrity_device *devices,
		     unsigned count, uint64_t out[2]);

#endif
