// SPDX-License-Identifier: Apache-2.0
// Two processes take turns with memory that they share. Events order their streams; nobody waits on
// the CPU for the other's work, only for word that it has been queued.
#include "driver.h"
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static const unsigned blocks = 16, threads = 256, count = blocks * threads, rounds = 40;

// slowly computes p[i] = f(p[i]), with so many steps that whoever doesn't wait sees the old values.
static __global__ void slowly(unsigned *p, unsigned steps, unsigned add) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = p[i];
    for (unsigned k = 0; k < steps; k++) x = x * 1664525u + 1013904223u;
    p[i] = x + add;
}

static const unsigned steps = 1000;

// once is what a turn makes of x: all steps at once.
static unsigned once(unsigned x, unsigned add) {
    static unsigned factor = 0, summand = 0;
    if (factor == 0) {
        factor = 1;
        for (unsigned k = 0; k < steps; k++) {
            factor *= 1664525u;
            summand = summand * 1664525u + 1013904223u;
        }
    }
    return x * factor + summand + add;
}

struct Message {
    CUipcMemHandle memory;
    CUipcEventHandle here, there;
};

static CUfunction function;

static void launch(CUstream s, CUdeviceptr p, unsigned add) {
    unsigned n = steps;
    void *params[] = {&p, &n, &add};
    CHECKCU(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, s, params, nullptr));
}

static void say(int fd) { REQUIRE(write(fd, "x", 1) == 1); }

static void hear(int fd) {
    char c;
    REQUIRE(read(fd, &c, 1) == 1);
}

static void begin() {
    openDevice();
    CHECK(cudaGetFuncBySymbol(&function, (const void *)slowly));
}

static int other(int from, int to) {
    Message m;
    CUdeviceptr p;
    CUevent here, there;
    CUstream s;
    float ms;
    REQUIRE(read(from, &m, sizeof m) == sizeof m);
    begin();
    CHECKCU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuIpcOpenMemHandle(&p, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECKCU(cuIpcOpenEventHandle(&here, m.here));
    CHECKCU(cuIpcOpenEventHandle(&there, m.there));
    for (unsigned round = 0; round < rounds; round++) {
        hear(from);
        CHECKCU(cuStreamWaitEvent(s, here, 0));
        launch(s, p, 2 * round + 1);
        CHECKCU(cuEventRecord(there, s));
        say(to);
    }
    CHECKCU(cuEventSynchronize(there));
    CHECKCU(cuEventQuery(here));
    CHECKCU(cuEventQuery(there));
    REPORTCU(cuEventElapsedTime(&ms, here, there));
    CHECKCU(cuEventDestroy(here));
    CHECKCU(cuEventDestroy(there));
    CHECKCU(cuIpcCloseMemHandle(p));
    fflush(stdout);
    say(to);
    return 0;
}

int main() {
    int forth[2], back[2];
    REQUIRE(pipe(forth) == 0 && pipe(back) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) return other(forth[0], back[1]);
    begin();
    Message m;
    CUdeviceptr p;
    CUevent here, there, refused;
    CUstream s;
    std::vector<unsigned> v(count), want(count);
    Random random{3};
    for (unsigned i = 0; i < count; i++) v[i] = want[i] = random.next();
    CHECKCU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemAlloc(&p, count * 4));
    CHECKCU(cuMemcpyHtoD(p, v.data(), count * 4));
    CHECKCU(cuEventCreate(&here, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuEventCreate(&there, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECKCU(cuIpcGetMemHandle(&m.memory, p));
    CHECKCU(cuIpcGetEventHandle(&m.here, here));
    CHECKCU(cuIpcGetEventHandle(&m.there, there));
    REQUIRE(write(forth[1], &m, sizeof m) == sizeof m);
    for (unsigned round = 0; round < rounds; round++) {
        launch(s, p, 2 * round);
        CHECKCU(cuEventRecord(here, s));
        say(forth[1]);
        hear(back[0]);
        CHECKCU(cuStreamWaitEvent(s, there, 0));
    }
    CHECKCU(cuMemcpyDtoHAsync(v.data(), p, count * 4, s));
    CHECKCU(cuStreamSynchronize(s));
    for (unsigned i = 0; i < count; i++) {
        for (unsigned turn = 0; turn < 2 * rounds; turn++) want[i] = once(want[i], turn);
        REQUIRE(v[i] == want[i]);
    }
    CHECKCU(cuEventQuery(there));
    hear(back[0]);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("each turn came after the one before");
    CHECKCU(cuEventDestroy(here));
    CHECKCU(cuEventDestroy(there));
    CHECKCU(cuMemFree(p));
    REPORTCU(cuEventCreate(&refused, CU_EVENT_INTERPROCESS));
    return 0;
}
