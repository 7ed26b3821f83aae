// SPDX-License-Identifier: Apache-2.0
// Properties of device and functions, limits and occupancy: they must agree with one another.
#include "driver.h"
#include <cstring>

__constant__ int table[100];

__global__ void __launch_bounds__(256) kernel(int *p) {
    __shared__ int cells[500];
    cells[threadIdx.x] = table[threadIdx.x % 100];
    __syncthreads();
    p[threadIdx.x] = cells[255 - threadIdx.x];
}

static void device() {
    cudaDeviceProp prop;
    int count, current, value, driver, runtime;
    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaGetDevice(&current));
    CHECK(cudaGetDeviceProperties(&prop, current));
    REQUIRE(count >= 1 && current == 0 && strlen(prop.name) > 0);
    REQUIRE(prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024);
    REQUIRE(prop.major >= 7 && prop.multiProcessorCount > 0 && prop.unifiedAddressing);
    REQUIRE(prop.maxThreadsDim[0] == 1024 && prop.maxThreadsDim[1] == 1024 &&
            prop.maxThreadsDim[2] == 64);
    REQUIRE(prop.maxGridSize[0] == 2147483647 && prop.maxGridSize[1] == 65535);
    REQUIRE(prop.sharedMemPerBlock == 49152 &&
            prop.sharedMemPerBlockOptin >= prop.sharedMemPerBlock);
    REQUIRE(prop.totalConstMem == 65536 && prop.regsPerBlock == 65536);

    struct {
        cudaDeviceAttr attribute;
        long long want;
    } same[] = {
        {cudaDevAttrMaxThreadsPerBlock, prop.maxThreadsPerBlock},
        {cudaDevAttrWarpSize, prop.warpSize},
        {cudaDevAttrMultiProcessorCount, prop.multiProcessorCount},
        {cudaDevAttrComputeCapabilityMajor, prop.major},
        {cudaDevAttrComputeCapabilityMinor, prop.minor},
        {cudaDevAttrMaxSharedMemoryPerBlock, (long long)prop.sharedMemPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (long long)prop.sharedMemPerBlockOptin},
        {cudaDevAttrMaxThreadsPerMultiProcessor, prop.maxThreadsPerMultiProcessor},
        {cudaDevAttrL2CacheSize, prop.l2CacheSize},
        {cudaDevAttrPciBusId, prop.pciBusID},
        {cudaDevAttrConcurrentKernels, prop.concurrentKernels},
        {cudaDevAttrAsyncEngineCount, prop.asyncEngineCount},
        {cudaDevAttrGlobalMemoryBusWidth, prop.memoryBusWidth},
    };
    for (auto &s : same) {
        CHECK(cudaDeviceGetAttribute(&value, s.attribute, 0));
        REQUIRE(value == s.want);
    }
    char name[256], bus[32];
    CUuuid uuid;
    CUdevice byBus;
    size_t bytes, free, total;
    CHECKCU(cuDeviceGetName(name, sizeof name, 0));
    CHECKCU(cuDeviceTotalMem(&bytes, 0));
    CHECKCU(cuDeviceGetUuid(&uuid, 0));
    CHECKCU(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    CHECKCU(cuDeviceGetByPCIBusId(&byBus, bus));
    CHECK(cudaMemGetInfo(&free, &total));
    REQUIRE(!strcmp(name, prop.name) && bytes == prop.totalGlobalMem && total == bytes &&
            free <= total);
    REQUIRE(!memcmp(&uuid, &prop.uuid, sizeof uuid) && byBus == 0);
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    REQUIRE(driver >= runtime);
    printf("device: consistent\n");
    REPORT(cudaDeviceGetAttribute(&value, (cudaDeviceAttr)9999, 0));
    REPORT(cudaGetDeviceProperties(&prop, count));
    REPORT(cudaGetLastError());
}

static void function() {
    cudaFuncAttributes a;
    int blocks, fewer, grid, block;
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    CHECK(cudaFuncGetAttributes(&a, kernel));
    REQUIRE(a.sharedSizeBytes == 2000 && a.maxThreadsPerBlock == 256 && a.constSizeBytes >= 400);
    REQUIRE(a.numRegs > 0 && a.localSizeBytes == 0);
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fewer, kernel, 256, 40000));
    REQUIRE(blocks >= 1 && blocks * 256 <= prop.maxThreadsPerMultiProcessor);
    REQUIRE(fewer >= 1 && fewer <= blocks);
    REQUIRE(fewer * 42000 <= (int)prop.sharedMemPerMultiprocessor);
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel, 0, 0));
    REQUIRE(block % 32 == 0 && block > 0 && block <= 256 && grid >= prop.multiProcessorCount);
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024));
    CHECK(cudaFuncGetAttributes(&a, kernel));
    REQUIRE(a.maxDynamicSharedSizeBytes == 1024);
    CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferShared));
    printf("function: consistent\n");
    size_t stack, heap;
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    CHECK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    printf("stack %zu, heap %zu\n", stack, heap);
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    REQUIRE(stack == 4096);
}

int main() {
    device();
    function();
    int least, greatest;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    REQUIRE(greatest <= least);
}
