// SPDX-License-Identifier: Apache-2.0
// Programs that hold what a program usually has on a GPU, while the host's memory is measured.
//   --programs N   how many at a time, 8 if not given
//   --seconds N    how long, 20 if not given
//   --mib N        device memory and ordinary memory of each, 64 MiB if not given
//   --bare 1       only a context and a kernel: what CUDA itself takes
// When all are there, a line says so: holding N.
#include "bench.h"
#include <sys/wait.h>

__global__ void touch(char *p, size_t n) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i]++;
}

// hold sets up a context, device memory, pinned memory and copies of ordinary memory, says so, and
// waits to be killed.
static int hold(int tell, size_t size, bool bare) {
    const size_t pinned = size / 4;
    char *dev, *host, *ordinary = (char *)malloc(size);
    if (bare) {
        CHECK(cudaMalloc(&dev, 1));
        touch<<<1, 1>>>(dev, 1);
        CHECK(cudaDeviceSynchronize());
        free(ordinary);
        if (write(tell, "", 1) != 1) return 1;
        pause();
    }
    memset(ordinary, 1, size);
    CHECK(cudaMalloc(&dev, size));
    CHECK(cudaHostAlloc(&host, pinned, cudaHostAllocDefault));
    CHECK(cudaMemcpy(dev, ordinary, size, cudaMemcpyHostToDevice));
    for (int i = 0; i < 100; i++) touch<<<64, 256>>>(dev, size);
    CHECK(cudaMemcpyAsync(host, dev, pinned, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(ordinary, dev, size, cudaMemcpyDeviceToHost));
    if (host[0] != 101 || ordinary[size - 1] != 101)
        fprintf(stderr, "memory: wrong data\n"), exit(1);
    if (write(tell, "", 1) != 1) return 1;
    pause();
    return 0;
}

int main(int argc, char **argv) {
    const int programs = option(argc, argv, "--programs", 8);
    std::vector<pid_t> all;
    int pipes[2];
    if (pipe(pipes)) return 1;
    for (int i = 0; i < programs; i++) {
        const pid_t child = fork();
        if (!child)
            _exit(hold(pipes[1], size_t(option(argc, argv, "--mib", 64)) << 20,
                       option(argc, argv, "--bare", 0)));
        all.push_back(child);
    }
    close(pipes[1]);
    char ready;
    for (int i = 0; i < programs; i++)
        if (read(pipes[0], &ready, 1) != 1)
            fprintf(stderr, "memory: a program ended early\n"), exit(1);
    printf("holding %d\n", programs), fflush(stdout);
    sleep(option(argc, argv, "--seconds", 20));
    for (const pid_t p : all) kill(p, SIGKILL), waitpid(p, nullptr, 0);
}
