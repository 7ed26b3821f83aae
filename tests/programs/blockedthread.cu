// SPDX-License-Identifier: Apache-2.0
// Threads that wait for a kernel which doesn't end delay no other thread.
#include "gate.h"
#include <atomic>
#include <pthread.h>
#include <unistd.h>

const int waiting = 4, rounds = 200, n = 256;

__global__ void mix(unsigned *p, unsigned key) { p[threadIdx.x] = p[threadIdx.x] * 69069u + key; }

static cudaStream_t held;
static cudaEvent_t event, blockingEvent;
static std::atomic<int> begun, ended;

static void *wait(void *arg) {
    CHECK(cudaSetDevice(0));
    begun++;
    switch (int(size_t(arg))) {
    case 0: CHECK(cudaStreamSynchronize(held)); break;
    case 1: CHECK(cudaEventSynchronize(event)); break;
    case 2: CHECK(cudaEventSynchronize(blockingEvent)); break;
    default: CHECK(cudaDeviceSynchronize());
    }
    ended++;
    return nullptr;
}

int main() {
    Gate gate;
    cudaStream_t stream;
    unsigned *dev, *pinned, want[n] = {}, ordinary[n];
    CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&blockingEvent, cudaEventDisableTiming | cudaEventBlockingSync));
    CHECK(cudaMalloc(&dev, sizeof want));
    CHECK(cudaMallocHost(&pinned, sizeof want));
    CHECK(cudaMemset(dev, 0, sizeof want));
    mix<<<1, n>>>(dev, 0);
    CHECK(cudaDeviceSynchronize());

    gate.hold(held);
    CHECK(cudaEventRecord(event, held));
    CHECK(cudaEventRecord(blockingEvent, held));
    pthread_t thread[waiting];
    for (size_t i = 0; i < waiting; i++)
        REQUIRE(!pthread_create(&thread[i], nullptr, wait, (void *)i));
    while (begun < waiting) usleep(1000);
    usleep(50000);  // by now they most likely sleep
    for (unsigned r = 0; r < rounds; r++) {
        mix<<<1, n, 0, stream>>>(dev, r);
        CHECK(cudaGetLastError());
        for (unsigned &x : want) x = x * 69069u + r;
        CHECK(cudaMemcpyAsync(r % 2 ? pinned : ordinary, dev, sizeof want, cudaMemcpyDeviceToHost,
                              stream));
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < n; i++) REQUIRE((r % 2 ? pinned : ordinary)[i] == want[i]);
    }
    REQUIRE(ended == 0);
    REQUIRE(cudaStreamQuery(held) == cudaErrorNotReady);
    gate.release();
    for (pthread_t t : thread) pthread_join(t, nullptr);
    printf("%d rounds while %d threads waited\n", rounds, int(ended));
    CHECK(cudaFree(dev));
    CHECK(cudaFreeHost(pinned));
}
