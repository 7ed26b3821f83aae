// SPDX-License-Identifier: Apache-2.0
// Two GPUs of one process that can't reach each other: they say so, every way to have it so is
// refused, and copies, events, graphs and the host's memory join them all the same.
#include "peercopies.h"

static void access() {
    int can;
    for (int i = 0; i < 2; i++) {
        CHECK(cudaDeviceCanAccessPeer(&can, i, 1 - i));
        printf("GPU %d reaches GPU %d: %d", i, 1 - i, can);
        for (cudaDeviceP2PAttr what : {cudaDevP2PAttrAccessSupported,
                                       cudaDevP2PAttrNativeAtomicSupported,
                                       cudaDevP2PAttrCudaArrayAccessSupported}) {
            CHECK(cudaDeviceGetP2PAttribute(&can, what, i, 1 - i));
            printf(" %d", can);
        }
        puts("");
        CHECK(cudaSetDevice(i));
        REPORT(cudaDeviceEnablePeerAccess(1 - i, 0));
        REPORT(cudaGetLastError());
        REPORT(cudaDeviceDisablePeerAccess(1 - i));
        REPORT(cudaGetLastError());
    }
}

// Memory of GPU 1 for GPU 0: a pool, and what was mapped. By which error they are refused may
// differ from driver to driver.
static void refused() {
    cudaMemPool_t pool;
    cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 1));
    printf("the pool is refused: %d\n", cudaMemPoolSetAccess(pool, &desc, 1) != cudaSuccess);
    cudaGetLastError();

    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    const size_t bytes = 2 << 20;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
    CHECKCU(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(p, bytes, 0, handle, 0));
    CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccessDesc other = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    printf("mapped memory is refused: %d\n", cuMemSetAccess(p, bytes, &other, 1) != CUDA_SUCCESS);
    CHECKCU(cuMemSetAccess(p, bytes, &own, 1));
    CHECK(cudaSetDevice(1));
    fill<<<64, 256>>>((int *)p, 50);
    is((int *)p, 64 * 256, 50, "mapped for its own GPU");
    CHECKCU(cuMemUnmap(p, bytes));
    CHECKCU(cuMemAddressFree(p, bytes));
    CHECKCU(cuMemRelease(handle));
}

// A number goes to and fro by copies, one larger each time; then the same as a graph.
static void order(int *const at[2]) {
    cudaStream_t s[2];
    cudaEvent_t e[2];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int value;
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        CHECK(cudaStreamCreate(&s[i]));
        CHECK(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
        CHECK(cudaMemset(at[i], 0, 4));
        CHECK(cudaDeviceSynchronize());
    }
    auto step = [&](int i) {
        CHECK(cudaSetDevice(i));
        addOne<<<1, 1, 0, s[i]>>>(at[i]);
        CHECK(cudaMemcpyPeerAsync(at[1 - i], 1 - i, at[i], i, 4, s[i]));
        CHECK(cudaEventRecord(e[i], s[i]));
        CHECK(cudaStreamWaitEvent(s[1 - i], e[i], 0));
    };
    for (int i = 0; i < 100; i++) step(i % 2);
    CHECK(cudaStreamSynchronize(s[0]));
    CHECK(cudaMemcpy(&value, at[0], 4, cudaMemcpyDeviceToHost));
    printf("to and fro: %d\n", value);

    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal));
    step(0);
    step(1);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamEndCapture(s[0], &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 10; i++) CHECK(cudaGraphLaunch(exec, s[0]));
    CHECK(cudaStreamSynchronize(s[0]));
    CHECK(cudaMemcpy(&value, at[0], 4, cudaMemcpyDeviceToHost));
    printf("by a graph: %d\n", value);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

// The host's memory is reached by the kernels of both.
static void host(int *const at[2]) {
    int *both;
    CHECK(cudaHostAlloc(&both, N * sizeof(int), cudaHostAllocPortable));
    CHECK(cudaSetDevice(0));
    fill<<<N / 256, 256>>>(both, 60);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    CHECK(cudaMemcpy(at[1], both, N * sizeof(int), cudaMemcpyDefault));
    is(at[1], N, 60, "written to the host by GPU 0, and copied to GPU 1");
    addOne<<<1, 1>>>(both);
    CHECK(cudaDeviceSynchronize());
    printf("and changed by GPU 1: %d\n", both[0]);
    CHECK(cudaFreeHost(both));
}

int main() {
    int devices;
    CHECK(cudaGetDeviceCount(&devices));
    REQUIRE(devices >= 2);
    int *at[] = {on(0, N * sizeof(int)), on(1, N * sizeof(int))};
    access();
    refused();
    copies(at[0], at[1], "without access");
    order(at);
    host(at);
}
