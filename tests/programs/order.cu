// SPDX-License-Identifier: Apache-2.0
// The order of a stream: copies, kernels, events and host functions follow one another as they were
// given, and the legacy stream waits for the others.
#include "check.h"
#include <atomic>
#include <vector>

__global__ void append(int *log, int *length, int what) { log[atomicAdd(length, 1)] = what; }

__global__ void pause(long long cycles) {
    for (long long begin = clock64(); clock64() - begin < cycles;) {}
}

static std::vector<int> called;
static std::atomic<int> gate;

static void CUDART_CB note(void *arg) { called.push_back(int(size_t(arg))); }

static void CUDART_CB noteStatus(cudaStream_t, cudaError_t status, void *arg) {
    called.push_back(int(size_t(arg)) + int(status));
}

static void CUDART_CB waitForGate(void *) {
    while (gate == 0) {}
}

int main() {
    cudaStream_t stream, other;
    cudaEvent_t before, after;
    int *log, *length, host[16] = {}, count;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
    CHECK(cudaMalloc(&log, sizeof host));
    CHECK(cudaMalloc(&length, sizeof(int)));
    CHECK(cudaMemset(log, 0, sizeof host));
    CHECK(cudaMemset(length, 0, sizeof(int)));
    append<<<1, 1, 0, stream>>>(log, length, 1);
    append<<<1, 1, 0, stream>>>(log, length, 2);
    CHECK(cudaStreamSynchronize(stream));

    // The gate holds the stream, so what follows can't be done yet.
    CHECK(cudaEventRecord(before, stream));
    CHECK(cudaLaunchHostFunc(stream, waitForGate, nullptr));
    CHECK(cudaLaunchHostFunc(stream, note, (void *)10));
    append<<<1, 1, 0, stream>>>(log, length, 3);
    CHECK(cudaStreamAddCallback(stream, noteStatus, (void *)20, 0));
    CHECK(cudaEventRecord(after, stream));
    CHECK(cudaStreamWaitEvent(other, after, 0));
    append<<<1, 1, 0, other>>>(log, length, 4);
    CHECK(cudaLaunchHostFunc(other, note, (void *)30));
    CHECK(cudaEventSynchronize(before));
    REPORT(cudaEventQuery(after));
    REPORT(cudaStreamQuery(stream));
    REPORT(cudaStreamQuery(other));
    REPORT(cudaGetLastError());
    gate = 1;
    CHECK(cudaStreamSynchronize(other));
    REPORT(cudaEventQuery(after));
    REPORT(cudaStreamQuery(stream));

    pause<<<1, 1, 0, stream>>>(100000);
    append<<<1, 1, 0, stream>>>(log, length, 5);
    append<<<1, 1>>>(log, length, 6);
    CHECK(cudaMemcpy(&count, length, sizeof count, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(host, log, sizeof host, cudaMemcpyDeviceToHost));
    printf("host functions:");
    for (int x : called) printf(" %d", x);
    printf("\n%d kernels:", count);
    for (int i = 0; i < count; i++) printf(" %d", host[i]);
    printf("\n");
    REQUIRE(called == std::vector<int>({10, 20, 30}));
    CHECK(cudaEventDestroy(before));
    CHECK(cudaEventDestroy(after));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaStreamDestroy(other));
}
