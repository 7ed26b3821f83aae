// SPDX-License-Identifier: Apache-2.0
// A process that has registered memory forks: the child keeps the memory as it was, the parent the
// pages that the device reads and writes. Small pieces on a page with others, whole pages, huge
// pages and shared ones.
#include "check.h"
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__global__ void look(const volatile unsigned char *p, int *out) { *out = *p; }

static int seen(unsigned char *p) {
    int *out, value;
    CHECK(cudaMalloc(&out, sizeof *out));
    look<<<1, 1>>>(p, out);
    CHECK(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(out));
    return value;
}

static int copied(unsigned char *p) {
    unsigned char *dev, value;
    CHECK(cudaMalloc(&dev, 1));
    CHECK(cudaMemcpyAsync(dev, p, 1, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(&value, dev, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dev));
    return value;
}

// Parent and child write a byte each, at once, and see their own. The byte's page is pinned in part
// or in whole.
static void check(const char *what, unsigned char *p, bool shared) {
    int go[2], done[2];
    char c = 'x';
    REQUIRE(pipe(go) == 0 && pipe(done) == 0);
    *p = 1;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (read(go[0], &c, 1) != 1) _exit(100);
        unsigned char found = *p;
        *p = 3;
        if (write(done[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(100);
        _exit(found * 10 + *p);
    }
    close(go[0]);
    close(done[1]);
    *p = 2;
    REQUIRE(write(go[1], &c, 1) == 1 && read(done[0], &c, 1) == 1);
    int host = *p, dev = copied(p), kernel = seen(p);
    REQUIRE(write(go[1], &c, 1) == 1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == (shared ? 23 : 13));
    REQUIRE(host == (shared ? 3 : 2) && dev == host && kernel == host);
    printf("%s: the parent's and the child's\n", what);
    close(go[1]);
    close(done[0]);
}

static unsigned char *map(size_t bytes, int flags) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    return (unsigned char *)p;
}

int main() {
    const size_t page = 4096, huge = 2 << 20;
    unsigned char *p = map(4 * page, MAP_PRIVATE);
    memset(p, 9, 4 * page);
    CHECK(cudaHostRegister(p + 100, 64, cudaHostRegisterDefault));
    check("a piece of a page", p + 100, false);
    check("the piece again", p + 163, false);
    // A neighbour on the page: not the device's to know, but the child's to have.
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        p[1000]++;
        _exit(p[1000]);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 10 &&
            p[1000] == 9);
    puts("its neighbour: both have it");
    CHECK(cudaHostUnregister(p + 100));

    CHECK(cudaHostRegister(p + page, 2 * page, cudaHostRegisterDefault));
    check("whole pages", p + 2 * page + 5, false);
    CHECK(cudaHostUnregister(p + page));

    unsigned char *space = map(3 * huge, MAP_PRIVATE);
    unsigned char *large = space + huge - (size_t)space % huge;
    madvise(large, huge, MADV_HUGEPAGE);
    memset(large, 9, huge);
    CHECK(cudaHostRegister(large, huge, cudaHostRegisterDefault));
    check("a huge page", large + huge / 2, false);
    CHECK(cudaHostUnregister(large));

    unsigned char *common = map(page, MAP_SHARED);
    CHECK(cudaHostRegister(common, page, cudaHostRegisterDefault));
    check("a shared page", common, true);
    CHECK(cudaHostUnregister(common));
}
