// SPDX-License-Identifier: Apache-2.0
// Memory that the kernel swaps out before it is copied, and while it is copied; guard bytes around
// it.
//   swapped [DEVICE]   DEVICE: a block device that is made swap space first, and pages must really
//   have gone there and
//                      come back. Without one, the kernel refuses what it has no place for.
#include "check.h"
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

const size_t bytes = 24 << 20, guard = 4096 + 77;

// makeSwap writes the header of a swap space of so many pages and has the kernel use it.
static void makeSwap(const char *device) {
    static unsigned char header[4096];
    const uint32_t version = 1, last = 2 * bytes / sizeof header - 1;
    memcpy(header + 1024, &version, sizeof version);
    memcpy(header + 1028, &last, sizeof last);
    memcpy(header + sizeof header - 10, "SWAPSPACE2", 10);
    const int fd = open(device, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, header, sizeof header) != sizeof header || fsync(fd) || close(fd) ||
        swapon(device, 0)) {
        fprintf(stderr, "swapped: %s: %s\n", device, strerror(errno));
        exit(1);
    }
}

// counted is a counter of the kernel's.
static unsigned long counted(const char *name) {
    char word[64];
    unsigned long value;
    FILE *f = fopen("/proc/vmstat", "r");
    REQUIRE(f);
    while (fscanf(f, "%63s %lu", word, &value) == 2)
        if (!strcmp(word, name)) {
            fclose(f);
            return value;
        }
    fprintf(stderr, "swapped: /proc/vmstat has no %s\n", name);
    exit(1);
}

static std::vector<unsigned char> numbers(uint64_t seed) {
    Random random{seed};
    std::vector<unsigned char> v(bytes);
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t word = random.next64();
        memcpy(&v[i], &word, sizeof word);
    }
    return v;
}

static void evict(unsigned char *p) {
    (void)!madvise(p, (bytes + 2 * guard) & ~size_t(4095), MADV_PAGEOUT);
}

int main(int argc, char **argv) {
    char *device;
    CHECK(cudaMalloc(&device, bytes));
    if (argc > 1) makeSwap(argv[1]);
    const unsigned long out = argc > 1 ? counted("pswpout") : 0,
                        in = argc > 1 ? counted("pswpin") : 0;
    unsigned char *p = (unsigned char *)mmap(nullptr, bytes + 2 * guard, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    memset(p, 0xa5, bytes + 2 * guard);
    std::vector<unsigned char> back(bytes);
    for (unsigned i = 0; i < 4; i++) {
        const bool during = i & 1;  // or only before
        const std::vector<unsigned char> want = numbers(i), other = numbers(i + 100);
        memcpy(p + guard, want.data(), bytes);
        evict(p);
        std::atomic<bool> done(false);
        std::thread evicter([&] {
            for (; during && !done; usleep(500)) evict(p);
        });
        CHECK(cudaMemcpy(device, p + guard, bytes, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(back.data(), device, bytes, cudaMemcpyDeviceToHost));
        REQUIRE(back == want);
        CHECK(cudaMemcpy(device, other.data(), bytes, cudaMemcpyHostToDevice));
        evict(p);
        CHECK(cudaMemcpy(p + guard, device, bytes, cudaMemcpyDeviceToHost));
        done = true;
        evicter.join();
        evict(p);
        REQUIRE(!memcmp(p + guard, other.data(), bytes));
        REQUIRE(allBytes(p, 0xa5, guard) && allBytes(p + guard + bytes, 0xa5, guard));
    }
    if (argc > 1) {
        const unsigned long wentOut = counted("pswpout") - out, cameBack = counted("pswpin") - in;
        fprintf(stderr, "%lu pages went out, %lu came back\n", wentOut, cameBack);
        REQUIRE(wentOut >= bytes / 4096 && cameBack >= bytes / 4096);
    }
    printf("swapped: exact\n");
}
