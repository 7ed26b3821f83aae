// SPDX-License-Identifier: Apache-2.0
// Functions that a stream calls see what the stream did before them, come in its order, and what
// they write is seen by what follows.
#include "check.h"
#include <atomic>

const int streams = 3, rounds = 60, n = 1000;

__global__ void produce(unsigned *dev, unsigned *mapped, unsigned key) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        dev[i] = key + i;
        mapped[i] = key ^ i;
    }
}

__global__ void verify(const unsigned *dev, unsigned key, unsigned *wrong) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (dev[i] != key * 3 + i) atomicAdd(wrong, 1u);
}

struct Lane {
    cudaStream_t stream;
    unsigned *dev, *mapped, *out, *in, next;
    std::atomic<unsigned> called, wrong;
};

struct Step {
    Lane *lane;
    unsigned key, number;
};

static void look(Step *s) {
    Lane *l = s->lane;
    if (l->called++ != s->number) l->wrong++;
    for (unsigned i = 0; i < n; i++) {
        if (l->out[i] != s->key + i || l->mapped[i] != (s->key ^ i)) l->wrong++;
        l->in[i] = s->key * 3 + i;
    }
}

static void CUDART_CB function(void *arg) { look((Step *)arg); }

static void CUDART_CB callback(cudaStream_t stream, cudaError_t status, void *arg) {
    Step *s = (Step *)arg;
    if (status != cudaSuccess || stream != s->lane->stream) s->lane->wrong++;
    look(s);
}

int main() {
    static Lane lane[streams];
    static Step step[streams][rounds];
    unsigned *wrong, bad;
    CHECK(cudaMalloc(&wrong, sizeof *wrong));
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    for (int s = 0; s < streams; s++) {
        Lane &l = lane[s];
        CHECK(cudaStreamCreateWithFlags(&l.stream,
                                        s % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        CHECK(cudaMalloc(&l.dev, n * sizeof(unsigned)));
        for (unsigned **p : {&l.mapped, &l.out, &l.in})
            CHECK(cudaHostAlloc(p, n * sizeof(unsigned), cudaHostAllocMapped));
    }
    CHECK(cudaDeviceSynchronize());
    for (unsigned r = 0; r < rounds; r++)
        for (int s = 0; s < streams; s++) {
            Lane &l = lane[s];
            unsigned key = (r + 1) * 2654435761u + s;
            step[s][r] = {&l, key, r};
            produce<<<1, 64, 0, l.stream>>>(l.dev, l.mapped, key);
            CHECK(cudaMemcpyAsync(l.out, l.dev, n * sizeof(unsigned), cudaMemcpyDeviceToHost,
                                  l.stream));
            if ((r + s) % 2)
                CHECK(cudaLaunchHostFunc(l.stream, function, &step[s][r]));
            else
                CHECK(cudaStreamAddCallback(l.stream, callback, &step[s][r], 0));
            CHECK(cudaMemcpyAsync(l.dev, l.in, n * sizeof(unsigned), cudaMemcpyHostToDevice,
                                  l.stream));
            verify<<<1, 64, 0, l.stream>>>(l.dev, key, wrong);
            CHECK(cudaGetLastError());
        }
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&bad, wrong, sizeof bad, cudaMemcpyDeviceToHost));
    REQUIRE(bad == 0);
    for (Lane &l : lane) REQUIRE(l.called == rounds && l.wrong == 0);
    printf("%d functions saw what came before, and were seen\n", streams * rounds);
}
