// SPDX-License-Identifier: Apache-2.0
// A program that queues more than anybody could keep is slowed down: its memory stays bounded, and
// nothing is lost.
#include "gate.h"
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

const int launches = 120000;  // of 4000 bytes each
const long most = 96 << 10;   // KiB that the program may grow by

struct Large {
    int word[1000];
};

__global__ void add(int *p, Large l) { atomicAdd(p, l.word[999]); }

static std::atomic<int> queued;
static Gate *gate;

// openLate opens the gate when the program gets no further, or has queued all.
static void *openLate(void *) {
    for (int last = -1; last != queued || last == 0; usleep(200000)) last = queued;
    gate->release();
    return nullptr;
}

static long resident() {
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    REQUIRE(f);
    while (fgets(line, sizeof line, f)) sscanf(line, "VmRSS: %ld", &kib);
    fclose(f);
    REQUIRE(kib > 0);
    return kib;
}

int main() {
    gate = new Gate;
    int *dev, got;
    cudaStream_t stream;
    pthread_t thread;
    Large large{};
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev, sizeof *dev));
    CHECK(cudaMemset(dev, 0, sizeof *dev));
    for (int i = 0; i < 2000; i++) add<<<1, 1, 0, stream>>>(dev, large);
    CHECK(cudaDeviceSynchronize());
    long before = resident();
    gate->hold(stream);
    REQUIRE(!pthread_create(&thread, nullptr, openLate, nullptr));
    large.word[999] = 1;
    for (int i = 0; i < launches; i++) {
        add<<<1, 1, 0, stream>>>(dev, large);
        CHECK(cudaGetLastError());
        queued++;
    }
    long grown = resident() - before;
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&got, dev, sizeof got, cudaMemcpyDeviceToHost));
    REQUIRE(got == launches);
    REQUIRE(grown < most);
    pthread_join(thread, nullptr);
    printf("%d launches queued and done\n", got);
}
