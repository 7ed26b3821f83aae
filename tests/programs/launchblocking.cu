// SPDX-License-Identifier: Apache-2.0
// With CUDA_LAUNCH_BLOCKING=1 a launch returns when its kernel is done, and reports how that ended.
#include "check.h"

__global__ void work(volatile int *done, int what) {
    for (long long begin = clock64(); clock64() - begin < 200000;) {}
    *done = what;
}

__global__ void fault(int *p) { *p = 1; }

int main() {
    REQUIRE(!setenv("CUDA_LAUNCH_BLOCKING", "1", 1));
    volatile int *done;
    cudaStream_t stream[3] = {0};
    CHECK(cudaHostAlloc((void **)&done, sizeof(int), cudaHostAllocMapped));
    CHECK(cudaStreamCreate(&stream[1]));
    CHECK(cudaStreamCreateWithFlags(&stream[2], cudaStreamNonBlocking));
    for (int i = 1; i <= 30; i++) {
        work<<<1, 1, 0, stream[i % 3]>>>(done, i);
        REQUIRE(*done == i);
        CHECK(cudaStreamQuery(stream[i % 3]));
    }
    work<<<1, 2048>>>(done, 0);
    REPORT(cudaGetLastError());
    fault<<<1, 1, 0, stream[2]>>>(nullptr);
    REPORT(cudaGetLastError());
    REPORT(cudaDeviceSynchronize());
}
