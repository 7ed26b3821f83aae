// SPDX-License-Identifier: Apache-2.0
// A gate holds a stream until the program opens it: what follows it in the stream can't be done
// before.
#pragma once
#include "check.h"

__global__ void waitAtGate(volatile int *open) {
    while (*open == 0) {}
}

struct Gate {
    volatile int *open;  // in pinned memory, which host and device reach at one address

    Gate() {
        CHECK(cudaHostAlloc((void **)&open, sizeof(int), cudaHostAllocMapped));
        // Loading a kernel may wait for the device: it is done before anything is held.
        *open = 1;
        waitAtGate<<<1, 1>>>(open);
        CHECK(cudaDeviceSynchronize());
        close();
    }
    ~Gate() { CHECK(cudaFreeHost((void *)open)); }
    void close() { *open = 0; }
    void hold(cudaStream_t stream) {
        waitAtGate<<<1, 1, 0, stream>>>(open);
        CHECK(cudaGetLastError());
    }
    void release() { *open = 1; }
};
