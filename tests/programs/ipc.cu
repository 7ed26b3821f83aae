// SPDX-License-Identifier: Apache-2.0
// Two processes share device memory: one allocates and fills, the other opens, looks, changes.
#include "driver.h"
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static const size_t count = 1 << 20;

static __global__ void add(unsigned *p, size_t n, unsigned value) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] += value;
}

struct Message {
    CUipcMemHandle large, small;
};

static void expect(CUdeviceptr p, size_t n, unsigned first) {
    std::vector<unsigned> v(n);
    CHECKCU(cuMemcpyDtoH(v.data(), p, n * 4));
    for (size_t i = 0; i < n; i++) REQUIRE(v[i] == first + i);
}

static void put(CUdeviceptr p, size_t n, unsigned first) {
    std::vector<unsigned> v(n);
    for (size_t i = 0; i < n; i++) v[i] = first + i;
    CHECKCU(cuMemcpyHtoD(p, v.data(), n * 4));
}

static int other(int from, int to) {
    Message m;
    REQUIRE(read(from, &m, sizeof m) == sizeof m);
    openDevice();
    CUdeviceptr large, small, again;
    CHECKCU(cuIpcOpenMemHandle(&large, m.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECKCU(cuIpcOpenMemHandle(&small, m.small, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    expect(large, count, 1000);
    expect(small, 100, 7);
    add<<<64, 256>>>((unsigned *)large, count, 5);
    CHECK(cudaGetLastError());
    put(small, 100, 50);
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuIpcOpenMemHandle(&again, m.large, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    printf("other: opened again %s\n", again == large ? "at the same address" : "elsewhere");
    CHECKCU(cuIpcCloseMemHandle(again));
    expect(large, count, 1005);
    CHECKCU(cuIpcCloseMemHandle(large));
    CHECKCU(cuIpcCloseMemHandle(small));
    fflush(stdout);
    REQUIRE(write(to, "x", 1) == 1);
    return 0;
}

int main() {
    int forth[2], back[2];
    REQUIRE(pipe(forth) == 0 && pipe(back) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) return other(forth[0], back[1]);
    openDevice();
    CUdeviceptr large, pad, small;
    CHECKCU(cuMemAlloc(&large, count * 4));
    CHECKCU(cuMemAlloc(&pad, 300));
    CHECKCU(cuMemAlloc(&small, 400));
    put(large, count, 1000);
    put(small, 100, 7);
    Message m;
    CHECKCU(cuIpcGetMemHandle(&m.large, large));
    CHECKCU(cuIpcGetMemHandle(&m.small, small));
    REQUIRE(write(forth[1], &m, sizeof m) == sizeof m);
    char c;
    REQUIRE(read(back[0], &c, 1) == 1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    expect(large, count, 1005);
    expect(small, 100, 50);
    puts("what the other process wrote is here");
    CHECKCU(cuMemFree(large));
    CHECKCU(cuMemFree(small));
    REPORTCU(cuIpcGetMemHandle(&m.large, 0x1234));
    return 0;
}
