// SPDX-License-Identifier: Apache-2.0
// Copies of memory that changes meanwhile: the process forks, a file is cut short, other memory is unmapped, and
// random ranges of a large buffer go both ways with guard bytes around.
#include "check.h"
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

const size_t large = 24 << 20;
static char *dev;

static unsigned char at(size_t i, unsigned seed) { return (unsigned char)((i * 2654435761u >> 13) + seed); }

static std::vector<unsigned char> numbers(size_t n, unsigned seed) {
    std::vector<unsigned char> v(n);
    for (size_t i = 0; i < n; i++) v[i] = at(i, seed);
    return v;
}

// A child gets pages of the buffer while the device writes them; the parent must see what arrives.
static void forks() {
    const std::vector<unsigned char> want = numbers(large, 1);
    std::vector<unsigned char> got(large);
    std::atomic<bool> done(false);
    CHECK(cudaMemcpy(dev, want.data(), large, cudaMemcpyHostToDevice));
    std::thread forker([&] {
        for (int i = 0; i < 20 && !done; i++) {
            const pid_t child = fork();
            if (!child) _exit(0);
            waitpid(child, nullptr, 0);
        }
    });
    for (int i = 0; i < 3; i++) {
        memset(got.data(), i, large);
        CHECK(cudaMemcpy(got.data(), dev, large, cudaMemcpyDeviceToHost));
        REQUIRE(!memcmp(got.data(), want.data(), large));
    }
    done = true;
    forker.join();
    printf("forks: the parent has its data\n");
}

// A file that is cut short under the copy gives an error, or what was there; nothing else suffers.
static void truncated() {
    char name[] = "/tmp/underfire-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0 && !unlink(name) && !ftruncate(fd, large));
    void *file = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(file != MAP_FAILED);
    memset(file, 7, large);
    std::thread cutter([&] { REQUIRE(!ftruncate(fd, 1 << 20)); });
    cudaMemcpy(dev, file, large, cudaMemcpyHostToDevice);
    cutter.join();
    REQUIRE(cudaMemcpy(dev, file, large, cudaMemcpyHostToDevice) != cudaSuccess);
    cudaGetLastError();
    REQUIRE(!munmap(file, large) && !close(fd));
    printf("truncated: refused\n");
}

// Memory that is gone is refused; what a thread unmaps beside a copy doesn't disturb it.
static void unmapped() {
    const std::vector<unsigned char> want = numbers(large, 2);
    std::vector<unsigned char> got(large);
    std::thread mapper([] {
        for (int i = 0; i < 50; i++) {
            void *p = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            REQUIRE(p != MAP_FAILED);
            memset(p, i, 1 << 16);
            munmap(p, 1 << 20);
        }
    });
    CHECK(cudaMemcpy(dev, want.data(), large, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(got.data(), dev, large, cudaMemcpyDeviceToHost));
    mapper.join();
    REQUIRE(got == want);
    void *gone = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(gone != MAP_FAILED && !munmap(gone, large));
    REQUIRE(cudaMemcpy(dev, gone, large, cudaMemcpyHostToDevice) != cudaSuccess);
    cudaGetLastError();
    printf("unmapped: refused\n");
}

// Ranges of every alignment; the bytes around them stay. Memory never written to reads as zeros.
static void ranges() {
    const std::vector<unsigned char> from = numbers(large, 3);
    std::vector<unsigned char> to(large);
    unsigned seed = 1;
    for (int i = 0; i < 60; i++) {
        seed = seed * 1664525 + 1013904223;
        const size_t n = (size_t)(seed >> 8) % ((size_t)1 << (4 + i % 20)) + 1, a = seed % 4099, b = (seed >> 5) % 8191;
        memset(to.data(), 0xee, b + n + 64);
        CHECK(cudaMemset(dev, 0x11, n + 64));
        CHECK(cudaMemcpy(dev + seed % 33, from.data() + a, n, cudaMemcpyDefault));
        CHECK(cudaMemcpy(to.data() + b, dev + seed % 33, n, cudaMemcpyDefault));
        REQUIRE(!memcmp(to.data() + b, from.data() + a, n));
        for (size_t k = 0; k < b; k++) REQUIRE(to[k] == 0xee);
        for (size_t k = b + n; k < b + n + 64; k++) REQUIRE(to[k] == 0xee);
    }
    unsigned char *fresh = (unsigned char *)mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(fresh != MAP_FAILED);
    CHECK(cudaMemset(dev, 0xff, large));
    CHECK(cudaMemcpy(dev, fresh, large, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(to.data(), dev, large, cudaMemcpyDeviceToHost));
    for (size_t k = 0; k < large; k++) REQUIRE(!to[k] && (k % 4096 || !fresh[k]));
    printf("ranges: exact\n");
}

// Pinned memory in long runs: large copies in both directions, then used again.
static void pinned() {
    const std::vector<unsigned char> want = numbers(large, 4);
    for (int i = 0; i < 3; i++) {
        unsigned char *p;
        CHECK(cudaMallocHost(&p, large));
        for (size_t k = 0; k < large; k += 4096) REQUIRE(p[k] == 0);
        memcpy(p, want.data(), large);
        CHECK(cudaMemcpyAsync(dev, p, large, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
        memset(p, 0, large);
        CHECK(cudaMemcpyAsync(p, dev, large, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
        REQUIRE(!memcmp(p, want.data(), large));
        CHECK(cudaFreeHost(p));
    }
    printf("pinned: exact\n");
}

int main() {
    CHECK(cudaMalloc(&dev, large + 4096));
    forks();
    truncated();
    unmapped();
    ranges();
    pinned();
    return 0;
}
