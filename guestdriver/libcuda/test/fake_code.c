/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fake_code.h"

#include <string.h>

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_device.h"
#include "fake_maps.h"
#include "fake_objects.h"
#include "fake_worker.h"
#include "zz_generated_words.h"

/* How many bytes of dynamic shared memory a block may have at most. */
#define SHARED CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

/* Of the kernel that there is: three pointers and a number. */
#define PARAMETER_BYTES 28

static uint64_t describe(uint64_t reference, uint64_t room)
{
	struct {
		struct paracuda_function_record record;
		uint32_t parameter[8];
		char name[8];
	} r = {
		.record = { .parameters = 4,
			    .parameter_bytes = PARAMETER_BYTES,
			    .attribute = { fake.function_threads, [SHARED] = fake.function_bytes },
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
	const uint8_t *parameters =
		at + sizeof(struct paracuda_command) + sizeof(*w) * AT_cuLaunchKernel_parameters;
	uint64_t threads = (uint64_t)fake_half(w, AT_cuLaunchKernel_grid_x_HALF) *
			   fake_half(w, AT_cuLaunchKernel_block_x_HALF);

	fake_count(&fake.launches);
	if (fake_half(w, AT_cuLaunchKernel_shared_HALF) > 49152)
		return CUDA_ERROR_INVALID_VALUE;
	if (w[AT_cuLaunchKernel_parameter_bytes] != PARAMETER_BYTES)
		return 0;
	memcpy(&p, parameters, PARAMETER_BYTES);
	for (int i = 0; i < p.n && (uint64_t)i < threads; i++)
		p.c[i] = p.a[i] + p.b[i];
	return 0;
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

static int take_managed(uint64_t address)
{
	if (!fake_mapped(address, MANAGED_BYTES))
		return CUDA_ERROR_INVALID_VALUE;
	managed_at = address;
	*(uint8_t *)(uintptr_t)address = MANAGED_VALUE;
	return 0;
}

static uint64_t get_managed(void)
{
	return fake.lie_managed ? fake_window() : managed_at;
}

/* Images: their logs are as long as this says. */
#define LOG_BYTES 7

static int load(const uint8_t *at, uint64_t image, uint64_t bytes)
{
	if (has_managed(at, image, bytes))
		return CUDA_ERROR_NOT_READY;
	give_back(at, image, bytes);
	return 0;
}

static int run_images(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w,
		      uint64_t *out, unsigned *outs)
{
	int result;

	switch (c->op) {
	case OP_cuModuleLoadData:
		result = load(at, w[AT_cuModuleLoadData_image], w[AT_cuModuleLoadData_image_bytes]);
		if (result)
			return result;
		fake_say(out, outs, OUT_cuModuleLoadData_module, fake_handle());
		fake_say(out, outs, OUT_cuModuleLoadData_infoUsed, LOG_BYTES);
		fake_say(out, outs, OUT_cuModuleLoadData_errorUsed, 0);
		return 0;
	case OP_cuLibraryLoadData:
		result = load(at, w[AT_cuLibraryLoadData_image],
			      w[AT_cuLibraryLoadData_image_bytes]);
		if (result)
			return result;
		fake_say(out, outs, OUT_cuLibraryLoadData_library, fake_handle());
		fake_say(out, outs, OUT_cuLibraryLoadData_infoUsed, LOG_BYTES);
		fake_say(out, outs, OUT_cuLibraryLoadData_errorUsed, 0);
		return 0;
	case OP_ManagedBytes:
		fake_say(out, outs, OUT_ManagedBytes_bytes,
			 fake.lie_length ? 1ull << 60 : MANAGED_BYTES);
		return 0;
	case OP_ModuleLoadManaged:
		result = take_managed(w[AT_ModuleLoadManaged_managed]);
		if (result)
			return result;
		fake_say(out, outs, OUT_ModuleLoadManaged_module, fake_handle());
		fake_say(out, outs, OUT_ModuleLoadManaged_errorUsed, 0);
		return 0;
	case OP_LibraryLoadManaged:
		result = take_managed(w[AT_LibraryLoadManaged_managed]);
		if (result)
			return result;
		fake_say(out, outs, OUT_LibraryLoadManaged_library, fake_handle());
		fake_say(out, outs, OUT_LibraryLoadManaged_errorUsed, 0);
		return 0;
	default:
		return ANOTHERS;
	}
}

static int launch_devices(const uint8_t *at, const uint64_t *w)
{
	const uint64_t n = w[AT_cuLaunchCooperativeKernelMultiDevice_count],
		       bytes = w[AT_cuLaunchCooperativeKernelMultiDevice_parameter_bytes];
	const uint8_t *entries = at + sizeof(struct paracuda_command) +
				 AT_cuLaunchCooperativeKernelMultiDevice_entries * sizeof(*w);
	size_t used = 0;

	if (!fake.together)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (uint64_t i = 0; i < n; i++) {
		CUDA_LAUNCH_PARAMS entry;

		memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
		if (used + (size_t)(uintptr_t)entry.kernelParams > bytes)
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(&fake.parameters, entries + n * sizeof(entry) + used,
		       sizeof(fake.parameters));
		used += ((size_t)(uintptr_t)entry.kernelParams + 7) & ~(size_t)7;
		fake.entries++;
	}
	return used == bytes ? 0 : CUDA_ERROR_INVALID_VALUE;
}

int fake_code(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w, uint64_t *out,
	      unsigned *outs)
{
	uint64_t threads;

	switch (c->op) {
	case OP_cuModuleGetGlobal_v2:
		fake_say(out, outs, OUT_cuModuleGetGlobal_v2_dptr, get_managed());
		fake_say(out, outs, OUT_cuModuleGetGlobal_v2_bytes, 1);
		return 0;
	case OP_cuLibraryGetManaged:
		fake_say(out, outs, OUT_cuLibraryGetManaged_dptr, get_managed());
		fake_say(out, outs, OUT_cuLibraryGetManaged_bytes, 1);
		return 0;
	case OP_cuLibraryGetModule: /* the same whenever it is asked for */
		fake_say(out, outs, OUT_cuLibraryGetModule_pMod,
			 w[AT_cuLibraryGetModule_library] | 1ull << 40);
		return 0;
	case OP_FuncDescribe:
		fake_say(out, outs, OUT_FuncDescribe_bytes,
			 describe(w[AT_FuncDescribe_record], w[AT_FuncDescribe_record_bytes]));
		return 0;
	case OP_KernelDescribe:
		fake_say(out, outs, OUT_KernelDescribe_bytes,
			 describe(w[AT_KernelDescribe_record], w[AT_KernelDescribe_record_bytes]));
		return 0;
	case OP_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags:
		threads = w[AT_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_blockSize];
		fake_say(out, outs,
			 OUT_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_numBlocks,
			 2048 / threads);
		return 0;
	case OP_cuFuncSetAttribute:
		if (w[AT_cuFuncSetAttribute_attrib] == SHARED)
			fake.function_bytes = (int)w[AT_cuFuncSetAttribute_value];
		return 0;
	case OP_cuLaunchKernel:
		return launch(at, w);
	case OP_cuLaunchCooperativeKernelMultiDevice:
		return launch_devices(at, w);
	default:
		return run_images(c, at, w, out, outs);
	}
}
