// SPDX-License-Identifier: Apache-2.0
// What the runtime knows of pointers: device, pinned, registered and ordinary memory.
#include "driver.h"
#include <vector>

__device__ int global;

static void show(const char *what, const void *p, bool samePointers) {
    cudaPointerAttributes a;
    cudaError_t e = cudaPointerGetAttributes(&a, p);
    printf("%s: %s", what, cudaGetErrorName(e));
    if (e == cudaSuccess)
        printf(", type %d, device %d, device pointer %s, host pointer %s", int(a.type), a.device,
               a.devicePointer == p ? "same" : a.devicePointer ? "other" : "none",
               a.hostPointer == p ? "same" : a.hostPointer ? "other" : "none");
    printf("\n");
    if (samePointers) REQUIRE(a.devicePointer == p);
}

int main() {
    openDevice();
    char *dev, *pinned, *symbol;
    std::vector<char> plain(10000), own(20000);
    CHECK(cudaMalloc(&dev, 5000));
    CHECK(cudaMallocHost(&pinned, 5000));
    CHECK(cudaGetSymbolAddress((void **)&symbol, global));
    CHECK(cudaHostRegister(own.data(), own.size(), cudaHostRegisterDefault));
    show("device", dev, true);
    show("inside device", dev + 4999, true);
    show("global variable", symbol, true);
    show("pinned", pinned, false);
    show("inside pinned", pinned + 100, false);
    show("registered", own.data() + 7, false);
    show("plain", plain.data(), false);
    show("null", nullptr, false);

    CUdeviceptr base;
    size_t size;
    CHECKCU(cuMemGetAddressRange(&base, &size, (CUdeviceptr)dev + 1234));
    REQUIRE(base == (CUdeviceptr)dev && size == 5000);
    REPORTCU(cuMemGetAddressRange(&base, &size, (CUdeviceptr)plain.data()));
    unsigned type = 0, ordinal = 7;
    REPORTCU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)dev));
    printf("memory type %u\n", type);
    REPORTCU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)pinned));
    printf("memory type %u\n", type);
    REPORTCU(
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)plain.data()));
    REPORTCU(
        cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)dev));
    printf("ordinal %u\n", ordinal);

    CHECK(cudaHostUnregister(own.data()));
    show("unregistered", own.data() + 7, false);
    CHECK(cudaFree(dev));
    show("freed", dev, false);
    CHECK(cudaFreeHost(pinned));
}
