// SPDX-License-Identifier: Apache-2.0
// Four streams copy, compute and copy back at once; events time them and order one after another.
// Times aren't printed, only whether they can be true.
#include "check.h"
#include <chrono>

const int streams = 4, n = 50000, rounds = 3;

__global__ void mix(unsigned *data, unsigned key) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        data[i] = data[i] * 1664525u + key;
}

__global__ void gather(unsigned *const *parts, unsigned *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned sum = 0;
    for (int s = 0; s < streams; s++) sum ^= parts[s][i];
    out[i] = sum;
}

int main() {
    auto begin = std::chrono::steady_clock::now();
    cudaStream_t stream[streams], last;
    cudaEvent_t start[streams], done[streams];
    unsigned *host[streams], *dev[streams], **parts, *out;
    CHECK(cudaMalloc(&parts, sizeof dev));
    CHECK(cudaMalloc(&out, n * sizeof(unsigned)));
    CHECK(cudaStreamCreateWithFlags(&last, cudaStreamNonBlocking));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaStreamCreateWithFlags(&stream[s],
                                        s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        CHECK(cudaEventCreate(&start[s]));
        CHECK(cudaEventCreateWithFlags(&done[s], cudaEventBlockingSync));
        CHECK(cudaMallocHost(&host[s], n * sizeof(unsigned)));
        CHECK(cudaMalloc(&dev[s], n * sizeof(unsigned)));
        for (int i = 0; i < n; i++) host[s][i] = i * (s + 1);
    }
    CHECK(cudaMemcpy(parts, dev, sizeof dev, cudaMemcpyHostToDevice));
    for (int s = 0; s < streams; s++) {
        CHECK(cudaEventRecord(start[s], stream[s]));
        CHECK(cudaMemcpyAsync(dev[s], host[s], n * sizeof(unsigned), cudaMemcpyHostToDevice,
                              stream[s]));
        for (unsigned r = 0; r < rounds; r++) mix<<<16, 128, 0, stream[s]>>>(dev[s], r + s);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(done[s], stream[s]));
        CHECK(cudaStreamWaitEvent(last, done[s], 0));
        CHECK(cudaMemcpyAsync(host[s], dev[s], n * sizeof(unsigned), cudaMemcpyDeviceToHost,
                              stream[s]));
    }
    gather<<<(n + 255) / 256, 256, 0, last>>>(parts, out);
    CHECK(cudaGetLastError());
    unsigned *all;
    CHECK(cudaMallocHost(&all, n * sizeof(unsigned)));
    CHECK(cudaMemcpyAsync(all, out, n * sizeof(unsigned), cudaMemcpyDeviceToHost, last));
    CHECK(cudaStreamSynchronize(last));

    bool plausible = true;
    for (int s = 0; s < streams; s++) {
        CHECK(cudaEventQuery(done[s]));
        CHECK(cudaStreamSynchronize(stream[s]));
        CHECK(cudaStreamQuery(stream[s]));
        float ms = -1, none = -1;
        CHECK(cudaEventElapsedTime(&ms, start[s], done[s]));
        CHECK(cudaEventElapsedTime(&none, done[s], done[s]));
        std::chrono::duration<float, std::milli> wall = std::chrono::steady_clock::now() - begin;
        plausible = plausible && ms > 0 && ms < wall.count() && none == 0;
    }
    for (int i = 0; i < n; i++) {
        unsigned want = 0;
        for (int s = 0; s < streams; s++) {
            unsigned x = i * (s + 1);
            for (unsigned r = 0; r < rounds; r++) x = x * 1664525u + r + s;
            REQUIRE(host[s][i] == x);
            want ^= x;
        }
        REQUIRE(all[i] == want);
    }
    printf("%d streams of %d launches, times %s\n", streams, rounds,
           plausible ? "plausible" : "wrong");
    for (int s = 0; s < streams; s++) {
        CHECK(cudaEventDestroy(start[s]));
        CHECK(cudaEventDestroy(done[s]));
        CHECK(cudaStreamDestroy(stream[s]));
        CHECK(cudaFreeHost(host[s]));
        CHECK(cudaFree(dev[s]));
    }
    CHECK(cudaStreamDestroy(last));
    return !plausible;
}
