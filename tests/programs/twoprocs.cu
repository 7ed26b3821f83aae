// SPDX-License-Identifier: Apache-2.0
// Runs itself twice at once, before any CUDA call, and waits for both. Each child keeps the GPU
// busy for a while with numbers of its own.
#include "check.h"
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

__global__ void step(unsigned *data, int n, unsigned key) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = (data[i] ^ key) * 2654435761u;
}

static int child(unsigned key) {
    const int n = 20000, rounds = 40;
    std::vector<unsigned> data(n);
    for (int i = 0; i < n; i++) data[i] = i;
    unsigned *dev;
    CHECK(cudaMalloc(&dev, n * sizeof(unsigned)));
    CHECK(cudaMemcpy(dev, data.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    for (int r = 0; r < rounds; r++) {
        step<<<(n + 127) / 128, 128>>>(dev, n, key + r);
        if (r % 10 == 0) CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(data.data(), dev, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        unsigned want = i;
        for (int r = 0; r < rounds; r++) want = (want ^ (key + r)) * 2654435761u;
        REQUIRE(data[i] == want);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "child")) return child(atoi(argv[2]));
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] != 0) continue;
        execl("/proc/self/exe", argv[0], "child", i ? "1000" : "7", (char *)nullptr);
        _exit(127);
    }
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        int status;
        REQUIRE(waitpid(pids[i], &status, 0) == pids[i]);
        bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        printf("program %d: %s\n", i + 1, ok ? "right" : "failed");
        failed += !ok;
    }
    return child(42) + failed;
}
