// SPDX-License-Identifier: Apache-2.0
// A kernel that reaches for another GPU's memory without access to it.
#include "check.h"

static __global__ void touch(int *p) { *p = 1; }

int main() {
    int *there;
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&there, 4));
    CHECK(cudaMemset(there, 0, 4));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(0));
    touch<<<1, 1>>>(there);
    REPORT(cudaDeviceSynchronize());
    REPORT(cudaGetLastError());
}
