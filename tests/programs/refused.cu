// SPDX-License-Identifier: Apache-2.0
// Memory that goes while it is copied: a file that is cut short, memory that is unmapped or moves
// away. A copy gives an error or what was there; nobody else's memory is written to, and later
// copies work. Natively such a program dies of a signal.
#include "check.h"
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

const size_t large = 24 << 20;
static char *dev;

// fresh is memory with all its pages.
static unsigned char *fresh() {
    void *p = mmap(nullptr, large, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char *)p;
}

// good is a copy that must work, whatever happened before.
static void good() {
    unsigned char *p = fresh();
    memset(p, 0x3b, large);
    CHECK(cudaMemcpy(dev, p, large, cudaMemcpyHostToDevice));
    memset(p, 0, large);
    CHECK(cudaMemcpy(p, dev, large, cudaMemcpyDeviceToHost));
    REQUIRE(allBytes(p, 0x3b, large));
    REQUIRE(!munmap(p, large));
}

// copy fails or doesn't, but for one reason only.
static void copy(void *to, const void *from, cudaMemcpyKind kind) {
    const cudaError_t e = cudaMemcpy(to, from, large, kind);
    REQUIRE(e == cudaSuccess || e == cudaErrorInvalidValue);
    REQUIRE(e == cudaGetLastError());
}

static void refuse(void *to, const void *from, cudaMemcpyKind kind) {
    REQUIRE(cudaMemcpy(to, from, large, kind) == cudaErrorInvalidValue);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
}

static void truncated() {
    for (int toHost = 0; toHost < 2; toHost++) {
        for (int delay = 0; delay < 2; delay++) {
            char name[] = "/tmp/refused-XXXXXX";
            const int fd = mkstemp(name);
            REQUIRE(fd >= 0 && !unlink(name) && !ftruncate(fd, large));
            void *file =
                mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
            REQUIRE(file != MAP_FAILED);
            memset(file, 7, large);
            std::thread cutter([&] {
                usleep(1000 * delay);
                REQUIRE(!ftruncate(fd, 1 << 20));
            });
            if (toHost) copy(file, dev, cudaMemcpyDeviceToHost);
            else copy(dev, file, cudaMemcpyHostToDevice);
            cutter.join();
            if (toHost) refuse(file, dev, cudaMemcpyDeviceToHost);
            else refuse(dev, file, cudaMemcpyHostToDevice);
            // What was cut off is zeros when the file grows again, not what the copy left.
            REQUIRE(!ftruncate(fd, large));
            REQUIRE(allBytes((unsigned char *)file + (1 << 20), 0, large - (1 << 20)));
            REQUIRE(!munmap(file, large) && !close(fd));
        }
    }
    good();
    printf("truncated: refused\n");
}

// A thread takes the memory away, and fills other memory with what must stay.
static void unmapped() {
    for (int toHost = 0; toHost < 2; toHost++) {
        for (int delay = 0; delay < 3; delay++) {
            unsigned char *p = fresh();
            memset(p, 1, large);
            CHECK(cudaMemset(dev, 0xee, large));
            unsigned char *mine = fresh();
            std::thread taker([&] {
                usleep(1000 * delay);
                REQUIRE(!munmap(p, large));
                memset(mine, 0x5c, large);
            });
            if (toHost) copy(p, dev, cudaMemcpyDeviceToHost);
            else copy(dev, p, cudaMemcpyHostToDevice);
            taker.join();
            usleep(2000);
            REQUIRE(allBytes(mine, 0x5c, large));
            refuse(dev, p, cudaMemcpyHostToDevice);
            refuse(p, dev, cudaMemcpyDeviceToHost);
            REQUIRE(!munmap(mine, large));
        }
    }
    good();
    printf("unmapped: refused\n");
}

// A thread moves the memory elsewhere: what was copied until then is there.
static void movedAway() {
    for (int delay = 0; delay < 3; delay++) {
        unsigned char *p = fresh(), *place = fresh();
        memset(p, 1, large);
        CHECK(cudaMemset(dev, 0xee, large));
        std::thread mover([&] {
            usleep(1000 * delay);
            REQUIRE(mremap(p, large, large, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
        });
        copy(p, dev, cudaMemcpyDeviceToHost);
        mover.join();
        for (size_t k = 0; k < large; k++) REQUIRE(place[k] == 1 || place[k] == 0xee);
        refuse(p, dev, cudaMemcpyDeviceToHost);
        REQUIRE(!munmap(place, large));
    }
    good();
    printf("moved away: refused\n");
}

// Memory that is only for reading can be copied from, and not to.
static void readOnly() {
    unsigned char *p = fresh();
    memset(p, 9, large);
    REQUIRE(!mprotect(p, large, PROT_READ));
    CHECK(cudaMemcpy(dev, p, large, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dev, 0xee, large));
    refuse(p, dev, cudaMemcpyDeviceToHost);
    REQUIRE(allBytes(p, 9, large));
    REQUIRE(!munmap(p, large));
    good();
    printf("read-only: refused\n");
}

int main() {
    CHECK(cudaMalloc(&dev, large));
    truncated();
    unmapped();
    movedAway();
    readOnly();
    return 0;
}
