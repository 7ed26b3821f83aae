// SPDX-License-Identifier: Apache-2.0
// A kernel reaches its own process's device and pinned memory, and nothing else. Each address is
// tried by a process of its own, since the fault kills its context; meanwhile another process lives
// whose memory is among what is tried.
#include "check.h"
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

const size_t block = size_t(64) << 20;
const uint64_t secret = 0x5ec7e75ec7e75ec7;

// What the processes tell one another.
struct Board {
    char *pinned, *device; // of the victim
    int error;             // of the last try
    uint64_t value;        // that it read
};
static Board *board;

__global__ void look(const uint64_t *p, uint64_t *out) { *out = *p; }

__global__ void fill(uint64_t *p, size_t n) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] = secret;
}

__global__ void count(const uint64_t *p, size_t n, unsigned *wrong) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        if (p[i] != secret) atomicAdd(wrong, 1);
}

// read has a kernel read an address, and notes how that ended.
static void read(const void *address) {
    uint64_t *out;
    CHECK(cudaMalloc(&out, sizeof *out));
    CHECK(cudaMemset(out, 0, sizeof *out));
    look<<<1, 1>>>((const uint64_t *)address, out);
    board->error = cudaDeviceSynchronize();
    board->value = 0;
    if (!board->error) CHECK(cudaMemcpy(&board->value, out, sizeof *out, cudaMemcpyDeviceToHost));
}

// must has a kernel read what it may read, so that a fault afterwards is that of the address.
static void must(const void *address) {
    read(address);
    REQUIRE(board->error == cudaSuccess && board->value == secret);
}

static char *ordinary() {
    void *p = mmap(nullptr, block, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    REQUIRE(p != MAP_FAILED);
    for (size_t i = 0; i < block; i += sizeof secret) memcpy((char *)p + i, &secret, sizeof secret);
    return (char *)p;
}

static void othersPinned() { read(board->pinned + block / 2); }
static void othersDevice() { read(board->device + block / 2); }
static void ownHeap() { read(ordinary() + block / 2); }

static void ownStack() {
    volatile uint64_t local = secret;
    read((const void *)&local);
}

static void ownCode() { read((const void *)((uintptr_t)&memcpy & ~uintptr_t(7))); }

static void besideRegistered() {
    char *p = ordinary();
    CHECK(cudaHostRegister(p + block / 2, 1 << 20, cudaHostRegisterDefault));
    must(p + block / 2);
    read(p + block / 4);
}

static void unregistered() {
    char *p = ordinary();
    CHECK(cudaHostRegister(p, block, cudaHostRegisterDefault));
    must(p + block / 2);
    CHECK(cudaHostUnregister(p));
    read(p + block / 2);
}

static void freedPinned() {
    char *p;
    CHECK(cudaMallocHost(&p, block));
    memcpy(p + block / 2, &secret, sizeof secret);
    must(p + block / 2);
    CHECK(cudaFreeHost(p));
    read(p + block / 2);
}

static void freedDevice() {
    char *p;
    CHECK(cudaMalloc(&p, block));
    fill<<<64, 128>>>((uint64_t *)p, block / sizeof secret);
    must(p + block / 2);
    CHECK(cudaFree(p));
    read(p + block / 2);
}

static const struct {
    const char *name;
    void (*run)();
} tries[] = {
    {"pinned memory of another process", othersPinned},
    {"device memory of another process", othersDevice},
    {"memory of the heap", ownHeap},
    {"memory of the stack", ownStack},
    {"code", ownCode},
    {"memory beside what is registered", besideRegistered},
    {"memory that was unregistered", unregistered},
    {"pinned memory that was freed", freedPinned},
    {"device memory that was freed", freedDevice},
};

// Where other software keeps things: the guest's RAM by its physical address, kernels, programs,
// libraries, heaps of Go.
static const uint64_t places[] = {
    0x1000,
    0x100000,
    0x400000,
    0x600000,
    0x1000000,
    0x40000000,
    0x60000000,
    0x60400000,
    0xc000000000,
    0xc000100000,
    0xc004000000,
    0x555555554000,
    0x5555557a0000,
    0x7ffff7dd0000,
    0x7ffff7ffe000,
    0x7ffffffde000,
    0xffff888000000000,
    0xffff888001000000,
    0xffffea0000000000,
    0xffffffff81000000,
    0xffffffffa0000000,
    0xffffffffff600000,
};

// apart runs f in a process of its own. It tells whether the kernel faulted.
template <class F> static bool apart(F f) {
    board->error = -1;
    fflush(nullptr);
    const pid_t child = fork();
    if (!child) {
        f();
        fflush(nullptr);
        _exit(0);
    }
    int status;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
            !WEXITSTATUS(status));
    return board->error == cudaErrorIllegalAddress;
}

// victim has memory, and looks at the end whether it is as it was.
static void victim(int ready, int end) {
    char *before, byte = 0;
    unsigned *wrong, n = 1;
    CHECK(cudaMalloc(&before, block)); // so that its own is where no other process has any
    CHECK(cudaMalloc(&board->device, block));
    CHECK(cudaMallocHost(&board->pinned, block));
    fill<<<64, 128>>>((uint64_t *)board->device, block / sizeof secret);
    fill<<<64, 128>>>((uint64_t *)board->pinned, block / sizeof secret);
    CHECK(cudaDeviceSynchronize());
    REQUIRE(write(ready, &byte, 1) == 1 && ::read(end, &byte, 1) == 1);
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    count<<<64, 128>>>((uint64_t *)board->device, block / sizeof secret, wrong);
    count<<<64, 128>>>((uint64_t *)board->pinned, block / sizeof secret, wrong);
    CHECK(cudaMemcpy(&n, wrong, sizeof n, cudaMemcpyDeviceToHost));
    REQUIRE(n == 0);
}

int main() {
    int ready[2], end[2], status;
    char byte = 0;
    board = (Board *)mmap(nullptr, sizeof *board, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(board != MAP_FAILED && !pipe(ready) && !pipe(end));
    const pid_t other = fork();
    if (!other) {
        victim(ready[1], end[0]);
        _exit(0);
    }
    close(ready[1]); // if the other process ends, the pipe does
    REQUIRE(other > 0 && ::read(ready[0], &byte, 1) == 1);
    for (const auto &t : tries)
        printf("%s: %s\n", t.name, apart(t.run) ? "out of reach" : "REACHED");
    size_t reached = 0;
    for (const uint64_t place : places) {
        if (apart([=] { read((const void *)place); })) continue;
        printf("%#llx: error %d\n", (unsigned long long)place, board->error);
        reached++;
    }
    printf("%zu of %zu other addresses reached\n", reached, sizeof places / sizeof *places);
    REQUIRE(write(end[1], &byte, 1) == 1 && waitpid(other, &status, 0) == other);
    printf("the other process: %s\n",
           WIFEXITED(status) && !WEXITSTATUS(status) ? "has its memory" : "failed");
    return 0;
}
