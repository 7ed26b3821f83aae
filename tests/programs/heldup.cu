// SPDX-License-Identifier: Apache-2.0
// Calls that may wait for a GPU's work hold up no other GPU: while one thread makes such a call on
// a GPU whose kernel doesn't end, another one computes on the other GPU. With the argument "say"
// the program also says whether the call waited, as far as can be seen in 300 ms.
#include "driver.h"
#include "gate.h"
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <unistd.h>
#include <vector>

static const char text[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .align 8 .b8 table[65536];
.visible .entry nothing() { ret; }
)";

__global__ void add(unsigned *p) { atomicAdd(p, 1); }

static std::atomic<int> begun, ended;

// What ends, and its end.
static CUarray array;
static CUmipmappedArray mipmapped;
static CUmodule module;
static CUlibrary library;
static std::vector<char> ordinary(1 << 20);
static void *pinned;
static CUdeviceptr most;
static size_t size;
static CUgraphExec graph;

static CUDA_ARRAY3D_DESCRIPTOR shape() {
    CUDA_ARRAY3D_DESCRIPTOR d = {};
    d.Width = d.Height = 64;
    d.Format = CU_AD_FORMAT_FLOAT;
    d.NumChannels = 1;
    return d;
}

static void makeArray() {
    CUDA_ARRAY3D_DESCRIPTOR d = shape();
    CHECKCU(cuArray3DCreate(&array, &d));
}
static void makeMipmapped() {
    CUDA_ARRAY3D_DESCRIPTOR d = shape();
    CHECKCU(cuMipmappedArrayCreate(&mipmapped, &d, 3));
}
static void makeModule() { CHECKCU(cuModuleLoadData(&module, text)); }
static void makeLibrary() {
    CUkernel kernel;
    CUfunction function;
    CHECKCU(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECKCU(cuLibraryGetKernel(&kernel, library, "nothing"));
    CHECKCU(cuKernelGetFunction(&function, kernel));
}
static void makeRegistered() {
    CHECKCU(cuMemHostRegister(ordinary.data(), ordinary.size(), 0));
}
static void makePinned() { CHECKCU(cuMemHostAlloc(&pinned, 1 << 20, 0)); }
static void makeMost() {
    size_t all;
    CHECKCU(cuMemGetInfo(&size, &all));
    size = size / 5 * 3;
    CHECKCU(cuMemAlloc(&most, size));
}
static void makeGraph() {
    CUgraph g;
    CUgraphNode node;
    CHECKCU(cuGraphCreate(&g, 0));
    CHECKCU(cuGraphAddEmptyNode(&node, g, nullptr, 0));
    CHECKCU(cuGraphInstantiate(&graph, g, 0));
    CHECKCU(cuGraphDestroy(g));
}

static const struct {
    const char *name;
    void (*make)();
    void (*end)();
} calls[] = {
    {"an array", makeArray, [] { CHECKCU(cuArrayDestroy(array)); }},
    {"a mipmapped array", makeMipmapped, [] { CHECKCU(cuMipmappedArrayDestroy(mipmapped)); }},
    {"a module", makeModule, [] { CHECKCU(cuModuleUnload(module)); }},
    {"a library", makeLibrary, [] { CHECKCU(cuLibraryUnload(library)); }},
    {"registered memory", makeRegistered,
     [] { CHECKCU(cuMemHostUnregister(ordinary.data())); }},
    {"pinned memory", makePinned, [] { CHECKCU(cuMemFreeHost(pinned)); }},
    {"most of the memory, which is taken again", makeMost,
     [] {
         CHECKCU(cuMemFree(most));
         CHECKCU(cuMemAlloc(&most, size));
         CHECKCU(cuMemFree(most));
     }},
    {"a graph", makeGraph, [] { CHECKCU(cuGraphExecDestroy(graph)); }},
};

static void *endOne(void *arg) {
    CHECK(cudaSetDevice(0));
    begun = 1;
    calls[size_t(arg)].end();
    ended = 1;
    return nullptr;
}

int main(int argc, char **argv) {
    bool say = argc > 1 && !strcmp(argv[1], "say");
    unsigned *count, got;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&count, sizeof got));
    CHECK(cudaMemset(count, 0, sizeof got));
    add<<<1, 1>>>(count);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    Gate gate;
    cudaStream_t held;
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        pthread_t thread;
        CHECK(cudaSetDevice(0));
        calls[i].make();
        CHECK(cudaDeviceSynchronize());
        gate.hold(held);
        begun = ended = 0;
        REQUIRE(!pthread_create(&thread, nullptr, endOne, (void *)i));
        while (!begun) usleep(1000);
        usleep(50000);  // by now the call most likely waits
        CHECK(cudaSetDevice(1));
        for (int k = 0; k < 32; k++) add<<<1, 1>>>(count);
        CHECK(cudaMemcpy(&got, count, sizeof got, cudaMemcpyDeviceToHost));
        for (int k = 0; say && k < 300 && !ended; k++) usleep(1000);
        bool waited = !ended;
        gate.release();
        REQUIRE(!pthread_join(thread, nullptr));
        CHECK(cudaSetDevice(0));
        CHECK(cudaDeviceSynchronize());
        gate.close();
        printf("%s ends: the other GPU added %u\n", calls[i].name, got);
        if (say) printf("  it %s\n", waited ? "waited" : "didn't wait");
        fflush(stdout);
    }
    CHECK(cudaStreamDestroy(held));
    return 0;
}
