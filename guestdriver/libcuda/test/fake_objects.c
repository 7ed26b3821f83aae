/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_objects.h"

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"
#include "zz_generated_words.h"

#define FIRST_HANDLE 0x5043000000000001u

static uint64_t last_handle = FIRST_HANDLE;

uint64_t fake_handle(void)
{
	return ++last_handle;
}

int fake_make(const struct paracuda_command *c, uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case OP_cuDevicePrimaryCtxRetain:
	case OP_cuCtxCreate_v2:
	case OP_cuModuleGetFunction:
	case OP_cuLibraryGetKernel:
	case OP_cuKernelGetFunction:
	case OP_cuStreamCreateWithPriority:
	case OP_EventCreate:
	case OP_PoolDefault:
	case OP_cuMemPoolCreate:
	case OP_cuMemCreate:
	case OP_cuGraphCreate:
	case OP_cuGraphInstantiateWithFlags:
	case OP_LinkCreate:
	case OP_cuTexRefCreate:
	case OP_cuArrayCreate_v2:
		out[(*outs)++] = fake.lie_handle ? 2 : fake_handle();
		return 0;
	default:
		return ANOTHERS;
	}
}

static uint64_t number_of(uint64_t handle)
{
	return fake.lie_handle ? 1ull << 40 : handle & 0xffffff;
}

int fake_share(const struct paracuda_command *c, const uint64_t *w, uint64_t *out, unsigned *outs)
{
	uint64_t opened;

	switch (c->op) {
	case OP_cuMemExportToShareableHandle:
		fake_say(out, outs, OUT_cuMemExportToShareableHandle_number,
			 number_of(w[AT_cuMemExportToShareableHandle_memory]));
		return 0;
	case OP_cuMemPoolExportToShareableHandle:
		fake_say(out, outs, OUT_cuMemPoolExportToShareableHandle_number,
			 number_of(w[AT_cuMemPoolExportToShareableHandle_pool]));
		return 0;
	case OP_cuMemImportFromShareableHandle:
		if (!w[AT_cuMemImportFromShareableHandle_number])
			return CUDA_ERROR_INVALID_VALUE;
		fake_say(out, outs, OUT_cuMemImportFromShareableHandle_memory,
			 fake.lie_handle ? 2 : fake_handle());
		fake_say(out, outs, OUT_cuMemImportFromShareableHandle_bytes, 2 << 20);
		fake_say(out, outs, OUT_cuMemImportFromShareableHandle_device, fake.import_device);
		return 0;
	case OP_cuMemPoolImportFromShareableHandle:
		fake_say(out, outs, OUT_cuMemPoolImportFromShareableHandle_pool, fake_handle());
		fake_say(out, outs, OUT_cuMemPoolImportFromShareableHandle_device,
			 fake.import_device);
		return 0;
	case OP_cuIpcGetMemHandle:
		fake_say(out, outs, OUT_cuIpcGetMemHandle_name, w[AT_cuIpcGetMemHandle_address]);
		fake_say(out, outs, OUT_cuIpcGetMemHandle_offset, 0);
		return 0;
	case OP_cuIpcOpenMemHandle_v2:
		opened = w[AT_cuIpcOpenMemHandle_v2_name] + (1 << 20) * ++fake.opens;
		fake_say(out, outs, OUT_cuIpcOpenMemHandle_v2_address, opened);
		fake_say(out, outs, OUT_cuIpcOpenMemHandle_v2_whole, opened);
		return 0;
	case OP_cuMemPoolExportPointer:
		fake_say(out, outs, OUT_cuMemPoolExportPointer_offset,
			 w[AT_cuMemPoolExportPointer_address]);
		return 0;
	case OP_cuMemPoolImportPointer:
		fake_say(out, outs, OUT_cuMemPoolImportPointer_address,
			 w[AT_cuMemPoolImportPointer_offset] + (1 << 20));
		return 0;
	default:
		return ANOTHERS;
	}
}
