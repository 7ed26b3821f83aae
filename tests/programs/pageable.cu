// SPDX-License-Identifier: Apache-2.0
// Copies of odd sizes at odd addresses from the heap, the stack and mapped files, there and back,
// with guard bytes on both sides of every buffer.
#include "check.h"
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

const size_t guard = 64, largest = (size_t(6) << 20) + 12345;
const unsigned char mark = 0xa5;

static char *dev;

static void fill(unsigned char *p, size_t size, uint64_t seed) {
    Random random{seed};
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t x = random.next64();
        memcpy(p + i, &x, 8);
    }
    for (; i < size; i++) p[i] = random.next();
}

static bool guarded(const unsigned char *p, size_t size) {
    for (size_t i = 0; i < guard; i++)
        if (p[i] != mark || p[guard + size + i] != mark) return false;
    return true;
}

// A buffer holds guard + size + guard bytes, and begins wherever its owner says.
static void thereAndBack(unsigned char *from, unsigned char *to, size_t size, size_t offset) {
    memset(from, mark, size + 2 * guard);
    memset(to, mark, size + 2 * guard);
    fill(from + guard, size, size * 31 + offset);
    std::vector<unsigned char> devGuards(2 * guard + size, 0x3c);
    CHECK(cudaMemset(dev, 0x3c, size + 2 * guard + offset));
    CHECK(cudaMemcpy(dev + guard + offset, from + guard, size, cudaMemcpyHostToDevice));
    fill(devGuards.data() + guard, size, size * 31 + offset);
    memset(from + guard, 0, size); // The source is the program's again once the call returns.
    CHECK(cudaMemcpy(to + guard, dev + guard + offset, size, cudaMemcpyDeviceToHost));
    REQUIRE(!memcmp(to + guard, devGuards.data() + guard, size));
    REQUIRE(guarded(from, size) && guarded(to, size));
    CHECK(cudaMemcpy(to, dev + offset, size + 2 * guard, cudaMemcpyDeviceToHost));
    REQUIRE(!memcmp(to, devGuards.data(), size + 2 * guard));
}

static unsigned char *mapFile(size_t size, int flags) {
    char path[] = "/tmp/pageable-XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && ftruncate(fd, size) == 0);
    unlink(path);
    void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    REQUIRE(p != MAP_FAILED);
    close(fd);
    return (unsigned char *)p;
}

static void stack() {
    unsigned char a[9001 + 2 * guard], b[9001 + 2 * guard];
    for (size_t size : {1, 2, 3, 5, 17, 4095, 4096, 4097, 8999}) thereAndBack(a, b, size, size % 7);
    thereAndBack(a + 1, b, 8999, 3);
    printf("stack: right\n");
}

int main() {
    CHECK(cudaMalloc(&dev, largest + 4 * guard));
    stack();
    const size_t room = largest + 2 * guard + 4096;
    std::vector<unsigned char> a(room), b(room);
    unsigned char *file = mapFile(room, MAP_SHARED), *copy = mapFile(room, MAP_PRIVATE);
    for (size_t size : {size_t(1), size_t(4093), size_t(65537), (size_t(1) << 20) - 1, largest}) {
        for (size_t align : {0, 1, 4095})
            thereAndBack(&a[align], &b[(align + 3) % 4096], size, align % 64);
        printf("heap, %zu bytes: right\n", size);
        thereAndBack(file + 5, copy + 4091, size, 1);
        thereAndBack(copy + 2, file, size, 0);
        printf("mapped file, %zu bytes: right\n", size);
    }
    CHECK(cudaMemcpy(dev, a.data(), 0, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dev + 4096, dev, 1000, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(b.data(), a.data(), 100000, cudaMemcpyHostToHost));
    CHECK(cudaMemcpy(b.data(), dev, 77, cudaMemcpyDefault));
    REQUIRE(!memcmp(&b[77], &a[77], 100000 - 77));
    // Read-only memory can be a source.
    REQUIRE(mprotect(file, room / 4096 * 4096, PROT_READ) == 0);
    CHECK(cudaMemcpy(dev, file, largest, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(a.data(), dev, largest, cudaMemcpyDeviceToHost));
    REQUIRE(!memcmp(a.data(), file, largest));
    printf("read-only source: right\n");
    CHECK(cudaFree(dev));
}
