/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_objects.h"

#include "abi/cuda_abi.h"
#include "context/zz_generated_calls.h"
#include "fake_worker.h"

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

int fake_share(const struct paracuda_command *c, const uint64_t *w, uint64_t *out, unsigned *outs)
{
	switch (c->op) {
	case OP_cuMemExportToShareableHandle:
	case OP_cuMemPoolExportToShareableHandle:
		out[(*outs)++] = fake.lie_handle ? 1ull << 40 : w[0] & 0xffffff;
		return 0;
	case OP_cuMemImportFromShareableHandle:
		if (!w[0])
			return CUDA_ERROR_INVALID_VALUE;
		out[0] = fake.lie_handle ? 2 : fake_handle();
		out[1] = 2 << 20;
		out[2] = fake.import_device;
		*outs = 3;
		return 0;
	case OP_cuMemPoolImportFromShareableHandle:
		out[0] = fake_handle();
		out[1] = fake.import_device;
		*outs = 2;
		return 0;
	case OP_cuIpcGetMemHandle:
		out[0] = w[0];
		*outs = 5;
		return 0;
	case OP_cuIpcOpenMemHandle_v2:
		out[0] = out[1] = w[0] + (1 << 20) * ++fake.opens;
		*outs = 2;
		return 0;
	case OP_cuMemPoolExportPointer:
		out[3] = w[0];
		*outs = 4;
		return 0;
	case OP_cuMemPoolImportPointer:
		out[(*outs)++] = w[4] + (1 << 20);
		return 0;
	default:
		return ANOTHERS;
	}
}
