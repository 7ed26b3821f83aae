// SPDX-License-Identifier: Apache-2.0

// What package driver needs of C: calls through pointers, and launches from packed arguments. The
// driver's own header is not used: what it says is described in gpubackend/api.
#ifndef PARACUDA_DRIVER_CALL_H
#define PARACUDA_DRIVER_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "zz_generated_cuda_layout.h"

enum { PC_ARGUMENTS = 16, PC_OUTPUTS = 4 };

// Arguments and results of one call. Integers narrower than 64 bits are passed in the low part of a
// word, as the calling conventions of x86-64 and arm64 allow for registers and Linux's stack slots.
struct pc_frame {
	uint64_t argument[PC_ARGUMENTS];
	uint64_t output[PC_OUTPUTS];
};

// pc_call calls function with the first n arguments of the frame.
int32_t pc_call(void *function, const struct pc_frame *frame, int32_t n);

// pc_open_event calls cuIpcOpenEventHandle with the 64 bytes at handle.
int32_t pc_open_event(void *function, uint64_t *event, const void *handle);

// pc_call_floats calls function with an object and n floating-point numbers, one or two, which
// travel in registers of their own.
int32_t pc_call_floats(void *function, uint64_t object, float a, float b, int32_t n);

// One launch. parameters and attributes lie in C memory.
struct pc_launch {
	uint64_t function;
	uint64_t stream;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t attribute_count;
	uint64_t parameters;
	uint64_t parameter_bytes;
	uint64_t attributes;
	uint64_t pointers; // to each parameter; 0: they are packed
};

// pc_launches queues n launches in order and stops at the first that fails; *done is the number
// that did not.
int32_t pc_launches(void *launch_kernel, void *launch_kernel_ex, const struct pc_launch *launch,
		    int32_t n, int32_t *done);

#endif
