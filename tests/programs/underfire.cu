// SPDX-License-Identifier: Apache-2.0
// Copies under fire: programs are killed in the middle, the process forks, pages are thrown away,
// pushed out and moved; and random ranges of a large buffer go both ways with guard bytes around.
#include "check.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

const size_t large = 24 << 20;
static char *dev;

static unsigned char at(size_t i, unsigned seed) {
    return (unsigned char)((i * 2654435761u >> 13) + seed);
}

static std::vector<unsigned char> numbers(size_t n, unsigned seed) {
    std::vector<unsigned char> v(n);
    for (size_t i = 0; i < n; i++) v[i] = at(i, seed);
    return v;
}

// fresh is memory without pages yet, or, for what is written to at once, with all of them: a fault
// each takes long.
static unsigned char *fresh(size_t bytes, int populate = 0) {
    void *p =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | populate, -1, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char *)p;
}

// Memory of this program's own, which nobody else may write to: it gets pages that copies had.
static void canary(int rounds, const std::atomic<bool> &stop, int populate = 0) {
    const size_t bytes = 8 << 20;
    for (int i = 0; i < rounds && !stop; i++) {
        unsigned char *p = fresh(bytes, populate);
        memset(p, 0x5c, bytes);
        usleep(2000);
        REQUIRE(allBytes(p, 0x5c, bytes));
        REQUIRE(!munmap(p, bytes));
    }
}

// What a program that is killed in the middle of a copy had belongs to others at once.
static void killed() {
    const std::atomic<bool> never(false);
    for (int i = 0; i < 4; i++) {
        int copying[2];
        char byte = 0;
        REQUIRE(!pipe(copying));
        const pid_t child = fork();
        if (!child) {
            char *from;
            unsigned char *to = fresh(large);
            CHECK(cudaMalloc(&from, large));
            CHECK(cudaMemset(from, 0xee, large));
            for (;;) {
                CHECK(cudaMemcpy(to, from, large, cudaMemcpyDeviceToHost));
                REQUIRE(write(copying[1], &byte, 1) == 1);
            }
        }
        close(copying[1]);
        for (int k = 0; k <= i; k++) REQUIRE(read(copying[0], &byte, 1) == 1);
        usleep(700 * i);
        REQUIRE(child > 0 && !kill(child, SIGKILL) && waitpid(child, nullptr, 0) == child);
        close(copying[0]);
        canary(6, never, MAP_POPULATE);
    }
    printf("killed: nothing is written afterwards\n");
}

// mixed depends on every bit of the memory, and on where it is.
static uint64_t mixed(const unsigned char *p, size_t bytes) {
    uint64_t sum = 0, word;
    for (size_t k = 0; k < bytes; k += sizeof word) {
        memcpy(&word, p + k, sizeof word);
        sum = sum * 0x100000001b3ull + word;
    }
    return sum;
}

// A child looks whether its memory stays as it was at fork(), and writes to it.
static int forked(unsigned char *p) {
    const uint64_t before = mixed(p, large);
    usleep(2000);
    if (mixed(p, large) != before) return 1;
    memset(p, 0xcc, large);
    usleep(2000);
    return allBytes(p, 0xcc, large) ? 0 : 2;
}

// Children get the buffer's pages while the device reads or writes them: each process has what is
// its own.
static void forks() {
    const std::vector<unsigned char> want = numbers(large, 1);
    unsigned char *p = fresh(large), *other = fresh(large);
    for (int toHost = 0; toHost < 2; toHost++) {
        std::atomic<bool> done(false);
        std::thread forker([&] {
            for (int i = 0; i < 6 && !done; i++) {
                const pid_t child = fork();
                if (!child) _exit(forked(p));
                int status;
                REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
                REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            }
        });
        for (int i = 0; i < 4; i++) {
            if (toHost) memset(p, i, large);
            else memcpy(p, want.data(), large);
            CHECK(toHost ? cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost)
                         : cudaMemcpy(dev, p, large, cudaMemcpyHostToDevice));
            if (!toHost) CHECK(cudaMemcpy(other, dev, large, cudaMemcpyDeviceToHost));
            REQUIRE(!memcmp(toHost ? p : other, want.data(), large));
        }
        done = true;
        forker.join();
    }
    REQUIRE(!munmap(p, large) && !munmap(other, large));
    printf("forks: parent and children have their own data\n");
}

// Pages that are thrown away while they are copied to read as zeros or as what was copied; nobody
// else's are written to.
static void discarded() {
    const size_t page = 4096;
    std::atomic<bool> done(false);
    unsigned char *p = fresh(large);
    std::thread owner([&] { canary(200, done); });
    std::thread discarder([&] {
        for (unsigned i = 0; !done; i++) {
            REQUIRE(!madvise(p + i * 7 % 24 * (large / 24), large / 24, MADV_DONTNEED));
            usleep(1000);
        }
    });
    CHECK(cudaMemset(dev, 0xee, large));
    for (int i = 0; i < 5; i++) {
        CHECK(cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost));
        for (size_t k = 0; k < large; k += page) REQUIRE(p[k] == 0 || p[k] == 0xee);
    }
    done = true;
    discarder.join();
    owner.join();
    CHECK(cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost));
    REQUIRE(allBytes(p, 0xee, large));
    REQUIRE(!munmap(p, large));
    printf("discarded: zeros or data\n");
}

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

// evict has the kernel push pages out and move them about. What it can't do here it refuses, which
// is fine.
static void evict(unsigned char *p, size_t bytes) {
    const int fd = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);
    (void)!madvise(p, bytes, MADV_PAGEOUT);
    if (fd < 0) return;
    (void)!write(fd, "1", 1);
    close(fd);
}

// Pages that the kernel pushes out and moves while they are copied, of the heap and of a file.
static void evicted() {
    const std::vector<unsigned char> want = numbers(large, 5);
    char name[] = "/tmp/underfire-XXXXXX";
    const int fd = mkstemp(name);
    REQUIRE(fd >= 0 && !unlink(name) && !ftruncate(fd, large));
    void *file = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    REQUIRE(file != MAP_FAILED);
    for (unsigned char *p : {fresh(large, MAP_POPULATE), (unsigned char *)file}) {
        std::atomic<bool> done(false);
        std::thread evicter([&] {
            for (int i = 0; i < 20 && !done; i++) evict(p, large);
        });
        for (int i = 0; i < 3; i++) {
            memcpy(p, want.data(), large);
            CHECK(cudaMemset(dev, i, large));
            CHECK(cudaMemcpy(dev, p, large, cudaMemcpyHostToDevice));
            memset(p, i, large);
            CHECK(cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost));
            REQUIRE(!memcmp(p, want.data(), large));
        }
        done = true;
        evicter.join();
        REQUIRE(!munmap(p, large));
    }
    close(fd);
    printf("evicted: exact\n");
}

// A buffer that moves to other addresses between copies, and another that comes to where it was.
static void moved() {
    const std::vector<unsigned char> want = numbers(large, 6);
    unsigned char *p = fresh(large, MAP_POPULATE);
    memcpy(p, want.data(), large);
    for (int i = 0; i < 6; i++) {
        CHECK(cudaMemcpy(dev, p, large, cudaMemcpyHostToDevice));
        unsigned char *place = fresh(large), *old = p;
        p = (unsigned char *)mremap(old, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        REQUIRE(p == place);
        REQUIRE(mmap(old, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) == old);
        CHECK(cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost));
        REQUIRE(!memcmp(p, want.data(), large));
        CHECK(cudaMemcpy(old, dev, large, cudaMemcpyDeviceToHost));
        REQUIRE(!memcmp(old, want.data(), large));
        REQUIRE(!munmap(old, large));
    }
    REQUIRE(!munmap(p, large));
    printf("moved: exact\n");
}

// Ranges of every alignment; the bytes around them stay. Memory never written to reads as zeros.
static void ranges() {
    const std::vector<unsigned char> from = numbers(large, 3);
    std::vector<unsigned char> to(large);
    unsigned seed = 1;
    for (int i = 0; i < 60; i++) {
        seed = seed * 1664525 + 1013904223;
        const size_t n = (size_t)(seed >> 8) % ((size_t)1 << (4 + i % 20)) + 1, a = seed % 4099,
                     b = (seed >> 5) % 8191;
        memset(to.data(), 0xee, b + n + 64);
        CHECK(cudaMemset(dev, 0x11, n + 64));
        CHECK(cudaMemcpy(dev + seed % 33, from.data() + a, n, cudaMemcpyDefault));
        CHECK(cudaMemcpy(to.data() + b, dev + seed % 33, n, cudaMemcpyDefault));
        REQUIRE(!memcmp(to.data() + b, from.data() + a, n));
        REQUIRE(allBytes(to.data(), 0xee, b) && allBytes(to.data() + b + n, 0xee, 64));
    }
    unsigned char *empty = fresh(large);
    CHECK(cudaMemset(dev, 0xff, large));
    CHECK(cudaMemcpy(dev, empty, large, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(to.data(), dev, large, cudaMemcpyDeviceToHost));
    REQUIRE(allBytes(to.data(), 0, large) && allBytes(empty, 0, large));
    printf("ranges: exact\n");
}

// Pinned memory in long runs: large copies in both directions, then used again.
static void pinned() {
    const std::vector<unsigned char> want = numbers(large, 4);
    for (int i = 0; i < 3; i++) {
        unsigned char *p;
        CHECK(cudaMallocHost(&p, large));
        REQUIRE(allBytes(p, 0, large));
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
    killed(); // before this process uses the GPU
    CHECK(cudaMalloc(&dev, large + 4096));
    forks();
    discarded();
    evicted();
    moved();
    ranges();
    pinned();
    return 0;
}
