/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of what processes share. They are the kernel driver's, and keep the object. */
#ifndef PARACUDA_SHARE_H
#define PARACUDA_SHARE_H

#include "transport/channel.h"

enum {
	HANDLE_TYPE_POSIX_FD = 1,
	HANDLE_TYPE_WIN32 = 2,
	HANDLE_TYPE_WIN32_KMT = 4,
	HANDLE_TYPE_FABRIC = 8,
	HANDLE_TYPES_KNOWN = 15,
};

/* Whether handles of that type can be made. */
CUresult share_type(int type);

/* Makes a descriptor of what the worker offers under a number. */
CUresult share_export(uint64_t object, int *fd);

/*
 * Gives the worker the object of a descriptor: returns the number by which the worker knows it, for
 * one use.
 */
CUresult share_import(const void *os_handle, uint64_t *object);

/*
 * This process's number of a device of the worker's. Memory of a device that CUDA_VISIBLE_DEVICES
 * hides counts as the current device's, which reaches it.
 */
CUdevice share_device(uint64_t host);

#endif
