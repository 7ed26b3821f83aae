/* SPDX-License-Identifier: Apache-2.0 */
#include "sharing/share.h"

#include <errno.h>
#include <limits.h>

#include "base/log.h"
#include "context/context.h"
#include "devices/device.h"
#include "transport/transport.h"

CUresult share_type(int type)
{
	switch (type) {
	case HANDLE_TYPE_POSIX_FD:
		return CUDA_SUCCESS;
	case HANDLE_TYPE_WIN32:
	case HANDLE_TYPE_WIN32_KMT:
	case HANDLE_TYPE_FABRIC:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* What the driver's refusal means to the program. */
static CUresult explain(const char *what, int error)
{
	CUresult dead = channel_dead();

	if (dead)
		return dead;
	log_line("%s: errno %d", what, error);
	switch (error) {
	case EBADF:
	case EINVAL:
	case ENOENT:
		return CUDA_ERROR_INVALID_VALUE;
	case ENOSPC:
	case ENOMEM:
		return CUDA_ERROR_OUT_OF_MEMORY;
	case ENOTTY: /* an older driver */
		return CUDA_ERROR_NOT_SUPPORTED;
	case EIO:
	case ENODEV:
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	default:
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
}

CUresult share_export(uint64_t object, int *fd)
{
	struct paracuda_ioctl_export args = { .object = (uint32_t)object };
	int error;

	if (!object || object > UINT32_MAX)
		return CUDA_ERROR_UNKNOWN;
	error = transport->export_object(&args);
	if (error)
		return explain("export", error);
	*fd = args.fd;
	return CUDA_SUCCESS;
}

CUresult share_import(const void *os_handle, uint64_t *object)
{
	uintptr_t number = (uintptr_t)os_handle;
	struct paracuda_ioctl_import args;
	int error;

	if (number > INT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	args.fd = (int)number;
	args.object = 0;
	error = transport->import_object(&args);
	if (error)
		return explain("import", error);
	*object = args.object;
	return CUDA_SUCCESS;
}

CUdevice share_device(uint64_t host)
{
	const struct context *c = context_current();

	for (unsigned i = 0; i < devices.count; i++)
		if (devices.host[i] == host)
			return (CUdevice)i;
	return c ? c->device : 0;
}
