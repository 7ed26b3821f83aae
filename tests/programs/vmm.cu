// SPDX-License-Identifier: Apache-2.0
// Reserves addresses, maps memory piece by piece as growing allocators do, and unmaps it again.
#include "driver.h"
#include <vector>

static __global__ void fill(unsigned *p, size_t n, unsigned value) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] = value ^ unsigned(i);
}

static CUmemAllocationProp prop;
static CUmemAccessDesc access;
static size_t piece;

static void put(CUdeviceptr at, size_t size) {
    CUmemGenericAllocationHandle handle;
    CHECKCU(cuMemCreate(&handle, size, &prop, 0));
    CHECKCU(cuMemMap(at, size, 0, handle, 0));
    CHECKCU(cuMemSetAccess(at, size, &access, 1));
    CHECKCU(cuMemRelease(handle));
}

static void verify(CUdeviceptr at, size_t size, unsigned value) {
    std::vector<unsigned> got(size / 4);
    fill<<<64, 256>>>((unsigned *)at, size / 4, value);
    CHECK(cudaGetLastError());
    CHECKCU(cuMemcpyDtoH(got.data(), at, size));
    for (size_t i = 0; i < got.size(); i++) REQUIRE(got[i] == (value ^ unsigned(i)));
}

int main() {
    CUdevice device = openDevice();
    int supported = 0;
    CHECKCU(cuDeviceGetAttribute(&supported,
                                 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
    printf("virtual memory management supported: %d\n", supported);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECKCU(cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    printf("granularity: %zu\n", piece);

    size_t size = 100 * piece;
    CUdeviceptr base, second;
    CHECKCU(cuMemAddressReserve(&base, size, 0, 0, 0));
    CHECKCU(cuMemAddressReserve(&second, size_t(64) << 30, 0, 0, 0));
    REQUIRE(base % piece == 0 && second % piece == 0);
    REQUIRE(second >= base + size || base >= second + (size_t(64) << 30));
    REPORTCU(cuMemsetD8(base, 1, 4));
    for (unsigned n = 0; n < 8; n++) {
        put(base + n * piece, piece);
        verify(base, (n + 1) * piece, 1000 * n);
    }
    // A copy within the device across pieces, and from the host.
    CHECKCU(cuMemcpyDtoD(base + 4 * piece + 4, base + piece / 2, 3 * piece));
    std::vector<unsigned char> host(3 * piece), back(3 * piece);
    Random random = {1};
    for (auto &c : host) c = random.next();
    CHECKCU(cuMemcpyHtoD(base + piece / 2, host.data(), host.size()));
    CHECKCU(cuMemcpyDtoH(back.data(), base + piece / 2, back.size()));
    REQUIRE(host == back);

    unsigned long long flags = 7;
    CHECKCU(cuMemGetAccess(&flags, &prop.location, base + 5));
    printf("access: %llu\n", flags);
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp told = {};
    CHECKCU(cuMemRetainAllocationHandle(&handle, (void *)(base + 3 * piece + 1)));
    CHECKCU(cuMemGetAllocationPropertiesFromHandle(&told, handle));
    REQUIRE(told.type == prop.type && told.location.id == prop.location.id &&
            told.location.type == prop.location.type);
    // The same memory at two addresses.
    CHECKCU(cuMemMap(second, piece, 0, handle, 0));
    CHECKCU(cuMemSetAccess(second, piece, &access, 1));
    CHECKCU(cuMemsetD32(second, 0xabcd, piece / 4));
    unsigned word = 0;
    CHECKCU(cuMemcpyDtoH(&word, base + 4 * piece - 4, 4));
    printf("alias: %#x\n", word);
    CHECKCU(cuMemUnmap(second, piece));
    CHECKCU(cuMemRelease(handle));

    // A hole in the middle, then something larger in it.
    CHECKCU(cuMemUnmap(base + 2 * piece, 3 * piece));
    REPORTCU(cuMemGetAccess(&flags, &prop.location, base + 2 * piece));
    put(base + 2 * piece, 2 * piece);
    verify(base, 4 * piece, 77);
    verify(base + 5 * piece, 3 * piece, 78);
    REPORTCU(cuMemUnmap(base + 2 * piece, piece));
    REPORTCU(cuMemMap(base, piece, 0, 0, 0));
    REPORTCU(cuMemAddressFree(base, size));
    REPORTCU(cuMemCreate(&handle, piece + 1, &prop, 0));

    CHECKCU(cuMemUnmap(base, 4 * piece));
    CHECKCU(cuMemUnmap(base + 5 * piece, 3 * piece));
    CHECKCU(cuMemAddressFree(base, size));
    CHECKCU(cuMemAddressFree(second, size_t(64) << 30));
    puts("done");
    return 0;
}
