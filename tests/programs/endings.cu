// SPDX-License-Identifier: Apache-2.0
// Programs that end, each in its way, without having waited for what they queued.
#include "gate.h"
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

__global__ void add(int *p) { atomicAdd(p, 1); }

static cudaStream_t stream;

static void *waitForStream(void *) {
    CHECK(cudaStreamSynchronize(stream));
    return nullptr;
}

int main(int, char **argv) {
    const char *how = argv[1];
    static char bytes[4096];
    int *dev;
    char *copy;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&dev, sizeof *dev));
    CHECK(cudaMalloc(&copy, sizeof bytes));
    CHECK(cudaMemset(dev, 0, sizeof *dev));
    Gate *gate = new Gate;
    bool held = !strcmp(how, "held");
    if (held) gate->hold(stream);  // for ever
    for (int i = 0; i < 300; i++) {
        add<<<1, 1, 0, stream>>>(dev);
        CHECK(cudaGetLastError());
        if (held) continue;  // a copy of ordinary memory may wait for the stream
        CHECK(cudaMemcpyAsync(copy, bytes, sizeof bytes, cudaMemcpyHostToDevice, stream));
    }
    pthread_t thread;
    if (held) REQUIRE(!pthread_create(&thread, nullptr, waitForStream, nullptr));
    printf("queued, then %s\n", how);
    fflush(stdout);
    if (!strcmp(how, "exit")) exit(3);
    if (!strcmp(how, "quick") || held) _exit(4);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "killed")) raise(SIGKILL);
    if (!strcmp(how, "terminated")) raise(SIGTERM);
    return 5;
}
