// SPDX-License-Identifier: Apache-2.0
// The same checks for calls of the driver API.
#pragma once
#include <cuda.h>
#include "check.h"

#define CHECKCU(call) checkcu((call), #call, __FILE__, __LINE__)

inline const char *name(CUresult r) {
    const char *s = "?";
    cuGetErrorName(r, &s);
    return s;
}

inline void checkcu(CUresult r, const char *call, const char *file, int line) {
    if (r == CUDA_SUCCESS) return;
    fprintf(stderr, "%s:%d: %s: %s (%d)\n", file, line, call, name(r), int(r));
    exit(1);
}

#define REPORTCU(call) reportcu((call), #call)

inline void reportcu(CUresult r, const char *call) {
    printf("%s: %s (%d)\n", call, name(r), int(r));
}

// openDevice makes the first device's primary context current.
inline CUdevice openDevice() {
    CUdevice device;
    CUcontext context;
    CHECKCU(cuInit(0));
    CHECKCU(cuDeviceGet(&device, 0));
    CHECKCU(cuDevicePrimaryCtxRetain(&context, device));
    CHECKCU(cuCtxSetCurrent(context));
    return device;
}
