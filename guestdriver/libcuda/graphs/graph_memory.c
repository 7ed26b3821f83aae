/* SPDX-License-Identifier: Apache-2.0 */
/* What the memory of all graphs takes. */
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
					     void *value)
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

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
					     void *value)
{
	ENTER();
	if (!device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	return call_GraphMemorySet(device_host(device), (unsigned)attr, *(cuuint64_t *)value);
}
