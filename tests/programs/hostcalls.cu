// SPDX-License-Identifier: Apache-2.0
// Host functions hold streams while other threads allocate, free, create, destroy and launch more
// than any queue holds: whatever of that waits inside the driver for a stream, the functions still
// run, each in its turn.
#include "check.h"
#include <atomic>
#include <thread>
#include <unistd.h>
#include <vector>

const int rounds = 20, launches = 400;

__global__ void add(int *counter) { ++*counter; }

// Step is what one host function is given: the number that it must find, and where.
struct Step {
    std::atomic<int> *turn;
    int number;
};

static void CUDART_CB slow(void *arg) {
    Step *step = static_cast<Step *>(arg);
    usleep(2000);
    REQUIRE(step->turn->load() == step->number);
    ++*step->turn;
}

static std::atomic<bool> over;

// churn makes and unmakes what it can.
static void churn() {
    while (!over) {
        void *device, *host;
        cudaStream_t stream;
        cudaEvent_t event;
        CHECK(cudaMalloc(&device, 1 << 20));
        CHECK(cudaMallocHost(&host, 1 << 16));
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreate(&event));
        CHECK(cudaMemsetAsync(device, 1, 1 << 20, stream));
        CHECK(cudaMemcpyAsync(host, device, 1 << 16, cudaMemcpyDefault, stream));
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaEventSynchronize(event));
        CHECK(cudaEventDestroy(event));
        CHECK(cudaFreeHost(host));
        CHECK(cudaFree(device));
    }
}

int main() {
    const int streams = 2;
    int *counters;
    std::atomic<int> turns[streams] = {};
    std::vector<Step> steps;
    cudaStream_t stream[streams];
    CHECK(cudaMalloc(&counters, streams * sizeof(int)));
    CHECK(cudaMemset(counters, 0, streams * sizeof(int)));
    CHECK(cudaDeviceSynchronize());
    for (cudaStream_t &s : stream) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int i = 0; i < rounds; i++)
        for (int s = 0; s < streams; s++) steps.push_back({&turns[s], i});

    std::thread other(churn);
    for (int i = 0; i < rounds; i++) {
        for (int s = 0; s < streams; s++) {
            CHECK(cudaLaunchHostFunc(stream[s], slow, &steps[size_t(streams * i + s)]));
            for (int k = 0; k < launches; k++) add<<<1, 1, 0, stream[s]>>>(counters + s);
        }
    }
    CHECK(cudaGetLastError());
    for (cudaStream_t s : stream) CHECK(cudaStreamSynchronize(s));
    over = true;
    other.join();

    int host[streams];
    CHECK(cudaMemcpy(host, counters, sizeof host, cudaMemcpyDeviceToHost));
    for (int s = 0; s < streams; s++)
        printf("stream %d: %d host functions, %d kernels\n", s, turns[s].load(), host[s]);
}
