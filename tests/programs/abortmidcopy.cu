// SPDX-License-Identifier: Apache-2.0
// Aborts while another thread copies large pageable buffers: nothing of it may be left behind.
#include "check.h"
#include <atomic>
#include <pthread.h>
#include <unistd.h>
#include <vector>

static std::atomic<int> copies;

static void *copyForever(void *) {
    const size_t size = 48 << 20;
    std::vector<char> host(size, 1);
    char *dev;
    CHECK(cudaMalloc(&dev, size));
    for (;;) {
        CHECK(cudaMemcpy(dev, host.data(), size, cudaMemcpyHostToDevice));
        copies++;
        CHECK(cudaMemcpy(host.data(), dev, size, cudaMemcpyDeviceToHost));
    }
    return nullptr;
}

int main() {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, nullptr, copyForever, nullptr) == 0);
    while (copies < 2) usleep(1000);
    printf("aborting in the middle of a copy\n");
    fflush(stdout);
    abort();
}
