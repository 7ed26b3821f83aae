// SPDX-License-Identifier: Apache-2.0
// Four threads share a context: each has a stream and memory of its own, and adds to one total.
#include "check.h"
#include <pthread.h>
#include <vector>

const int n = 10000, rounds = 20;

__global__ void work(unsigned *data, unsigned key, unsigned long long *total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    data[i] = data[i] * 69069u + key;
    atomicAdd(total, (unsigned long long)data[i]);
}

struct Job {
    pthread_t thread;
    unsigned key;
    unsigned long long *total;
    unsigned long long expected;
};

static void *run(void *arg) {
    Job *job = (Job *)arg;
    cudaStream_t stream;
    unsigned *dev;
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev, n * sizeof(unsigned)));
    std::vector<unsigned> want(n), got(n);
    CHECK(cudaMemsetAsync(dev, 0, n * sizeof(unsigned), stream));
    for (unsigned r = 0; r < rounds; r++) {
        work<<<(n + 63) / 64, 64, 0, stream>>>(dev, job->key + r, job->total);
        CHECK(cudaGetLastError());
        for (unsigned &x : want) job->expected += x = x * 69069u + job->key + r;
        if (r % 5 != job->key % 5) continue;
        CHECK(
            cudaMemcpyAsync(got.data(), dev, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(got == want);
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(dev));
    CHECK(cudaStreamDestroy(stream));
    return nullptr;
}

int main() {
    unsigned long long *total, sum = 0, got;
    CHECK(cudaMalloc(&total, sizeof *total));
    CHECK(cudaMemset(total, 0, sizeof *total));
    CHECK(cudaDeviceSynchronize());
    Job jobs[4] = {};
    for (unsigned i = 0; i < 4; i++) {
        jobs[i].key = i * 1000 + i;
        jobs[i].total = total;
        REQUIRE(pthread_create(&jobs[i].thread, nullptr, run, &jobs[i]) == 0);
    }
    for (Job &job : jobs) {
        REQUIRE(pthread_join(job.thread, nullptr) == 0);
        sum += job.expected;
    }
    CHECK(cudaMemcpy(&got, total, sizeof got, cudaMemcpyDeviceToHost));
    printf("4 threads, total %llu\n", got);
    REQUIRE(got == sum);
    CHECK(cudaFree(total));
}
