// SPDX-License-Identifier: Apache-2.0
// Copies of sizes from 4 KiB to 128 MiB by powers of 8, both ways, queued and not, of every kind of
// host memory, with guard bytes on both sides. It launches no kernel, so that nothing but copies
// moves bytes.
//
// Usage: copysizes [SMALLEST [LARGEST]], in bytes
#include "check.h"
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

const size_t guard = 64, page = 4096;
const unsigned char mark = 0xa5;

static size_t smallest = 4096, largest = size_t(128) << 20, room;
static char *dev;
static cudaStream_t stream;

// next is a generator of its own: of so many numbers each instruction counts where the processor is
// emulated.
static uint64_t next(uint64_t x) { return x * 6364136223846793005ull + 1442695040888963407ull; }

static void fill(unsigned char *p, size_t size, uint64_t seed) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
        seed = next(seed);
        memcpy(p + i, &seed, 8);
    }
}

static bool holds(const unsigned char *p, size_t size, uint64_t seed) {
    uint64_t wrong = 0, word;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        seed = next(seed);
        memcpy(&word, p + i, 8);
        wrong |= word ^ seed;
    }
    return !wrong;
}

static void copy(void *to, const void *from, size_t size, bool queued) {
    if (!queued) {
        CHECK(cudaMemcpy(to, from, size, cudaMemcpyDefault));
        return;
    }
    CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
}

// p has a page before and behind the largest copy.
static void copies(const char *name, unsigned char *p, size_t hostOffset, size_t devOffset) {
    uint64_t seed = hostOffset;
    p += page + hostOffset;
    for (size_t size = largest; size >= smallest; size /= 8) {
        for (int queued = 0; queued < 2; queued++) {
            seed++;
            fill(p, size, seed);
            memset(p - guard, mark, guard);
            memset(p + size, mark, guard);
            copy(dev + devOffset, p, size, queued);
            memset(p, 0, size); // the program's again, or copied
            copy(p, dev + devOffset, size, queued);
            REQUIRE(holds(p, size, seed));
            for (size_t i = 0; i < guard; i++)
                REQUIRE(p[-1 - (ptrdiff_t)i] == mark && p[size + i] == mark);
        }
    }
    printf("%s: exact\n", name);
}

// map makes memory with all its pages, since they are written to at once.
static unsigned char *map(int flags, int fd) {
    void *p = mmap(nullptr, room, PROT_READ | PROT_WRITE, flags | MAP_POPULATE, fd, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char *)p;
}

static void file(const char *name, int flags) {
    char path[] = "/tmp/copysizes-XXXXXX";
    const int fd = mkstemp(path);
    REQUIRE(fd >= 0 && !unlink(path) && !ftruncate(fd, room));
    unsigned char *p = map(flags, fd);
    copies(name, p, 0, 0);
    REQUIRE(!munmap(p, room) && !close(fd));
}

int main(int argc, char **argv) {
    if (argc > 1) smallest = strtoull(argv[1], nullptr, 0);
    if (argc > 2) largest = strtoull(argv[2], nullptr, 0);
    room = largest + 2 * page;
    CHECK(cudaMalloc(&dev, room));
    CHECK(cudaStreamCreate(&stream));
    unsigned char *p = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    copies("pageable", p, 0, 0);
    copies("pageable, unaligned", p, 1234, 77);
    CHECK(cudaHostRegister(p, room, cudaHostRegisterDefault));
    copies("registered", p, 0, 0);
    copies("registered, unaligned", p, 4001, 3);
    CHECK(cudaHostUnregister(p));
    REQUIRE(!munmap(p, room));
    CHECK(cudaMallocHost(&p, room));
    copies("pinned", p, 0, 0);
    copies("pinned, unaligned", p, 333, 1);
    CHECK(cudaFreeHost(p));
    file("shared file", MAP_SHARED);
    file("private file", MAP_PRIVATE);
    CHECK(cudaFree(dev));
    return 0;
}
