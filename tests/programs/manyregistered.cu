// SPDX-License-Identifier: Apache-2.0
// 10,000 pieces of a program's own memory registered at a time, and as many allocated pinned: each
// is copied from and to, and written in place; then they go in another order, and some come back.
#include "check.h"
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

static const size_t COUNT = 10000, PAGE = 4096;

// change changes a word in the middle of each piece, in host memory.
__global__ void change(unsigned **pieces, size_t count) {
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) pieces[i][500] += 7;
}

struct Pieces {
    std::vector<unsigned *> host;
    unsigned **list;  // of the addresses, on the device
    unsigned char *device;

    void begin() {
        CHECK(cudaMalloc(&device, COUNT * PAGE));
        CHECK(cudaMalloc(&list, COUNT * sizeof(*list)));
        CHECK(cudaMemcpy(list, host.data(), COUNT * sizeof(*list), cudaMemcpyHostToDevice));
    }

    // use copies every piece to the device, changes it in place, and copies every second one back
    // over that.
    void use(unsigned mark) {
        for (size_t i = 0; i < COUNT; i++) {
            std::fill(host[i], host[i] + PAGE / 4, mark + (unsigned)i);
            CHECK(cudaMemcpyAsync(device + i * PAGE, host[i], PAGE, cudaMemcpyHostToDevice, 0));
        }
        change<<<1, 256>>>(list, COUNT);
        CHECK(cudaGetLastError());
        for (size_t i = 0; i < COUNT; i += 2)
            CHECK(cudaMemcpyAsync(host[i], device + i * PAGE, PAGE, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaDeviceSynchronize());
        for (size_t i = 0; i < COUNT; i++)
            for (size_t k = 0; k < PAGE / 4; k++)
                REQUIRE(host[i][k] == mark + i + (k == 500 && i % 2 ? 7 : 0));
    }

    void end() {
        CHECK(cudaFree(device));
        CHECK(cudaFree(list));
    }
};

static std::vector<size_t> shuffled(unsigned seed) {
    std::vector<size_t> order(COUNT);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    return order;
}

// registered has memory of malloc's registered, unregistered in another order, some of it in
// between.
static void registered() {
    Pieces p;
    for (size_t i = 0; i < COUNT; i++) {
        p.host.push_back((unsigned *)aligned_alloc(PAGE, PAGE));
        CHECK(cudaHostRegister(p.host[i], PAGE, 0));
    }
    p.begin();
    p.use(1);
    const auto order = shuffled(1);
    for (size_t i = 0; i < COUNT / 8; i++) CHECK(cudaHostUnregister(p.host[order[i]]));
    for (size_t i = 0; i < COUNT / 8; i++) CHECK(cudaHostRegister(p.host[order[i]], PAGE, 0));
    p.use(100000);
    for (size_t i : shuffled(2)) CHECK(cudaHostUnregister(p.host[i]));
    REQUIRE(cudaHostUnregister(p.host[7]) == cudaErrorHostMemoryNotRegistered);
    cudaGetLastError();
    for (size_t i = 0; i < COUNT; i++) {
        REQUIRE(p.host[i][3] == 100000 + i);
        free(p.host[i]);
    }
    p.end();
}

// allocated has pinned memory allocated, and freed in another order.
static void allocated() {
    Pieces p;
    p.host.resize(COUNT);
    for (auto &h : p.host) CHECK(cudaMallocHost(&h, PAGE));
    p.begin();
    p.use(5);
    for (size_t i : shuffled(3)) CHECK(cudaFreeHost(p.host[i]));
    p.end();
}

int main() {
    registered();
    allocated();
    printf("%zu pieces registered, and %zu allocated: all right\n", COUNT, COUNT);
}
