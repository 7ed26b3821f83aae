// SPDX-License-Identifier: Apache-2.0
// The default streams: that of the process, which waits for all blocking streams and they for it,
// and that of each thread. Built with and without --default-stream per-thread, which says what a
// stream of 0 stands for.
#include "gate.h"
#include <pthread.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
const bool perThread = true;
#else
const bool perThread = false;
#endif

__global__ void add(int *p) { atomicAdd(p, 1); }

static int *counter;
static cudaStream_t blocking, apart, reading;

static int count() {
    int n;
    CHECK(cudaMemcpyAsync(&n, counter, sizeof n, cudaMemcpyDeviceToHost, reading));
    CHECK(cudaStreamSynchronize(reading));
    return n;
}

// between holds one stream, adds in another, and looks whether that waits as it should.
static void between(cudaStream_t held, cudaStream_t stream, bool waits) {
    static Gate gate;
    gate.close();
    int before = count();
    gate.hold(held);
    add<<<1, 1, 0, stream>>>(counter);
    CHECK(cudaGetLastError());
    if (!waits) CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; waits && i < 50; i++) REQUIRE(cudaStreamQuery(stream) == cudaErrorNotReady);
    REQUIRE(count() == before + !waits);
    gate.release();
    CHECK(cudaDeviceSynchronize());
    REQUIRE(count() == before + 1);
}

// both does it in either direction.
static void both(cudaStream_t a, cudaStream_t b, bool wait) {
    between(a, b, wait);
    between(b, a, wait);
}

// inOtherThread works in its stream 0 while another thread's stream 0 is held.
static void *inOtherThread(void *) {
    CHECK(cudaSetDevice(0));
    add<<<1, 1>>>(counter);
    CHECK(cudaGetLastError());
    if (perThread) {
        int zero = 0, one;
        CHECK(cudaStreamSynchronize(0));
        CHECK(cudaMemcpy(counter + 1, &zero, sizeof zero, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(counter + 1, 1, sizeof zero));
        CHECK(cudaMemcpy(&one, counter + 1, sizeof one, cudaMemcpyDeviceToHost));
        REQUIRE(one == 0x01010101);
    }
    return (void *)(cudaStreamQuery(0) == cudaErrorNotReady);
}

int main() {
    CHECK(cudaMalloc(&counter, 2 * sizeof(int)));
    CHECK(cudaMemset(counter, 0, 2 * sizeof(int)));
    CHECK(cudaStreamCreate(&blocking));
    CHECK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&reading, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
    add<<<1, 1>>>(counter);
    add<<<1, 1, 0, cudaStreamPerThread>>>(counter);
    CHECK(cudaDeviceSynchronize());

    both(cudaStreamLegacy, blocking, true);
    both(cudaStreamLegacy, cudaStreamPerThread, true);
    both(cudaStreamLegacy, apart, false);
    both(cudaStreamPerThread, blocking, false);
    both(0, cudaStreamLegacy, true);
    both(0, blocking, !perThread);
    both(0, perThread ? cudaStreamPerThread : cudaStreamLegacy, true);

    Gate gate;
    pthread_t thread;
    void *waits;
    gate.hold(0);
    REQUIRE(!pthread_create(&thread, nullptr, inOtherThread, nullptr));
    pthread_join(thread, &waits);
    REQUIRE(cudaStreamQuery(0) == cudaErrorNotReady);
    gate.release();
    CHECK(cudaDeviceSynchronize());
    REQUIRE(bool(waits) == !perThread);
    printf("threads %s\n",
           waits ? "share their default stream" : "have default streams of their own");
    CHECK(cudaStreamDestroy(blocking));
    CHECK(cudaStreamDestroy(apart));
    CHECK(cudaStreamDestroy(reading));
    CHECK(cudaFree(counter));
}
