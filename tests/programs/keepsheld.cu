// SPDX-License-Identifier: Apache-2.0
// A graph, round after round, that nearly always waits for its host function: as many rounds as the
// argument says, 0 for no end. Another stream has work in between, which has ended by then.
#include "check.h"
#include <cstdint>
#include <unistd.h>
#include <utility>

const int words = 64;

__global__ void step(uint32_t *p, uint32_t round) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + round + threadIdx.x;
}

// Seen is what the function has: the memory that the nodes before it have filled, and a sum of it.
struct Seen {
    const volatile uint32_t *memory;
    uint32_t sum;
};

static void CUDART_CB add(void *p) {
    Seen *seen = static_cast<Seen *>(p);
    usleep(50 * 1000);
    for (int k = 0; k < words; k++) seen->sum += seen->memory[k];
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    uint32_t *memory, *other, *has, want[words] = {}, wantOther[words] = {}, sum = 0;
    for (uint32_t **p : {&memory, &other}) {
        CHECK(cudaMalloc(p, words * 4));
        CHECK(cudaMemset(*p, 0, words * 4));
    }
    CHECK(cudaMallocHost(&has, words * 4));
    Seen seen = {has, 0};
    cudaStream_t stream, beside;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());

    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    step<<<1, words, 0, stream>>>(memory, 3);
    CHECK(cudaMemcpyAsync(has, memory, words * 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaLaunchHostFunc(stream, add, &seen));
    step<<<1, words, 0, stream>>>(memory, 5);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));

    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        CHECK(cudaGraphLaunch(exec, stream));
        step<<<1, words, 0, beside>>>(other, i);
        CHECK(cudaStreamSynchronize(beside));
        CHECK(cudaStreamSynchronize(stream));
        for (int k = 0; k < words; k++) {
            want[k] = want[k] * 1664525u + 3 + k;
            sum += want[k];
            want[k] = want[k] * 1664525u + 5 + k;
            wantOther[k] = wantOther[k] * 1664525u + i + k;
        }
        REQUIRE(seen.sum == sum);
    }
    for (auto [p, w] : {std::pair(memory, want), std::pair(other, wantOther)}) {
        CHECK(cudaMemcpy(has, p, words * 4, cudaMemcpyDeviceToHost));
        for (int k = 0; k < words; k++) REQUIRE(has[k] == w[k]);
    }
    printf("%d rounds with a host function in a graph\n", i);
    return 0;
}
