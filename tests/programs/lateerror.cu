// SPDX-License-Identifier: Apache-2.0
// Which call reports what went wrong: a launch that can't be is refused by itself, whatever is
// queued before it; a kernel that fails is reported by what waits for it, and by every call from
// then on.
#include "gate.h"

__global__ void add(int *p) { atomicAdd(p, 1); }
__global__ void fault(int *p) { *p = 1; }

static int *counter;

static void addMany(cudaStream_t stream) {
    for (int i = 0; i < 100; i++) {
        add<<<1, 1, 0, stream>>>(counter);
        CHECK(cudaGetLastError());
    }
}

int main() {
    Gate gate;
    cudaStream_t stream;
    cudaEvent_t event;
    int got;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&counter, sizeof *counter));
    CHECK(cudaMemset(counter, 0, sizeof *counter));
    CHECK(cudaDeviceSynchronize());
    cudaFuncAttributes loaded;
    CHECK(cudaFuncGetAttributes(&loaded,
                                fault)); // so that nothing is loaded while the gate is closed
    addMany(stream);
    CHECK(cudaStreamSynchronize(stream));

    gate.hold(stream);
    addMany(stream);
    add<<<1, 2048, 0, stream>>>(counter);
    REPORT(cudaGetLastError());
    add<<<1, 1, 1 << 20, stream>>>(counter);
    REPORT(cudaGetLastError());
    add<<<0, 1, 0, stream>>>(counter);
    REPORT(cudaPeekAtLastError());
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpyAsync(counter, nullptr, 4, cudaMemcpyHostToDevice, stream));
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpyAsync(&got, counter, 4, (cudaMemcpyKind)77, stream));
    REPORT(cudaGetLastError());
    addMany(stream);
    REPORT(cudaStreamQuery(stream));
    gate.release();
    REPORT(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&got, counter, sizeof got, cudaMemcpyDeviceToHost));
    REQUIRE(got == 300);

    gate.close();
    gate.hold(stream);
    fault<<<1, 1, 0, stream>>>(nullptr);
    REPORT(cudaGetLastError());
    CHECK(cudaEventRecord(event, stream));
    addMany(stream);
    REPORT(cudaEventQuery(event));
    REPORT(cudaGetLastError());
    gate.release();
    REPORT(cudaEventSynchronize(event));
    REPORT(cudaStreamSynchronize(stream));
    add<<<1, 1, 0, stream>>>(counter);
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpy(&got, counter, sizeof got, cudaMemcpyDeviceToHost));
    REPORT(cudaMalloc(&counter, 4));
    fflush(stdout);
    _Exit(0);  // nothing can be freed any more
}
