// SPDX-License-Identifier: Apache-2.0
// Memory that is asked for with generic compression: it is given where the device offers it, and
// holds what is written. Whether a GPU offers it isn't printed.
#include "driver.h"
#include <vector>

static __global__ void fill(unsigned *p, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] = unsigned(i) * 2654435761u;
}

static CUmemAllocationProp prop;

// given makes memory, maps it, writes and reads it, and returns the compression that it has.
static int given(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp told = {};
    CUmemAccessDesc access = {};
    CUdeviceptr at;
    CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
    CHECKCU(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    REQUIRE(told.type == prop.type && told.location.id == prop.location.id);
    CHECKCU(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(at, bytes, 0, handle, 0));
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECKCU(cuMemSetAccess(at, bytes, &access, 1));

    std::vector<unsigned> got(bytes / 4);
    CHECKCU(cuMemsetD32(at, 7, bytes / 4)); // what compresses well
    CHECKCU(cuMemcpyDtoH(got.data(), at, bytes));
    for (unsigned word : got) REQUIRE(word == 7);
    fill<<<1, 256>>>((unsigned *)at, bytes / 4); // and what doesn't
    CHECK(cudaGetLastError());
    CHECKCU(cuMemcpyDtoH(got.data(), at, bytes));
    for (size_t i = 0; i < got.size(); i++) REQUIRE(got[i] == unsigned(i) * 2654435761u);
    CHECKCU(cuMemUnmap(at, bytes));
    CHECKCU(cuMemAddressFree(at, bytes));
    CHECKCU(cuMemRelease(handle));
    return told.allocFlags.compressionType;
}

int main() {
    CUdevice device = openDevice();
    int offered = -1;
    size_t plain = 0, bytes = 0;
    CUmemGenericAllocationHandle handle;
    CHECKCU(cuDeviceGetAttribute(&offered, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
                                 device));
    REQUIRE(offered == 0 || offered == 1);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CHECKCU(cuMemGetAllocationGranularity(&plain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    printf("none is given unless asked for: %d\n", given(plain) == 0);
    prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    CHECKCU(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    printf("compressed memory has the same granularity: %d\n", bytes == plain);
    printf("it is given where it is offered, and not elsewhere: %d\n", given(bytes) == offered);
    prop.allocFlags.compressionType = 2;
    REPORTCU(cuMemCreate(&handle, bytes, &prop, 0));
}
