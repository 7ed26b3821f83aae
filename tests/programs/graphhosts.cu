// SPDX-License-Identifier: Apache-2.0
// Graphs made by hand that end in a host function, launched again before the last launch is over. A
// launch may wait for the function of the one before; so may kernels, once there are more of them
// than a queue holds. Nothing else in this program makes a host function known before.
#include "graphs.h"
#include <atomic>
#include <thread>
#include <unistd.h>

// What is copied, and what of it the kernels look at.
static const unsigned big = 16u << 20, seen = big / 8, blocks = 256, threads = 256;

// sums adds up what each block of threads sees.
static __global__ void sums(const unsigned *in, unsigned n, unsigned long long *out) {
    __shared__ unsigned long long part[threads];
    unsigned long long sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] += part[0];
}

static __global__ void total(const unsigned long long *in, unsigned n, unsigned long long *out) {
    for (unsigned i = 0; i < n; i++) *out += in[i];
}

static __global__ void count(unsigned *n) { ++*n; }

// Sum is what the host function of a graph is given: it looks at the result and clears it.
struct Sum {
    unsigned long long result, want;
    std::atomic<unsigned> calls, wrong;
};

static void CUDART_CB look(void *data) {
    Sum *s = static_cast<Sum *>(data);
    if (s->result != s->want) s->wrong++;
    s->result = 0;
    s->calls++;
}

// Seven is a graph of seven nodes: a copy of pinned memory, two fills, two kernels, a copy back to
// memory of the program's and a host function.
struct Seven {
    unsigned *data;
    unsigned long long *part, *sum;
    Sum told = {};
    cudaGraph_t graph;

    Seven(unsigned *in, unsigned long long want) {
        told.want = want;
        CHECK(cudaMalloc(&data, big * sizeof *data));
        CHECK(cudaMalloc(&part, blocks * sizeof *part));
        CHECK(cudaMalloc(&sum, sizeof *sum));
        CHECK(cudaGraphCreate(&graph, 0));
        cudaGraphNode_t load, clear, first, zero, second, store, last;
        unsigned length = seen, parts = blocks;
        void *firstArgs[] = {&data, &length, &part}, *secondArgs[] = {&part, &parts, &sum};
        cudaKernelNodeParams k = kernel((void *)sums, firstArgs);
        k.gridDim = blocks;
        k.blockDim = threads;
        cudaMemsetParams fill = fillOf((unsigned *)part, 0);
        fill.width = 2 * blocks;
        CHECK(cudaGraphAddMemcpyNode1D(&load, graph, nullptr, 0, data, in, big * sizeof *in,
                                       cudaMemcpyHostToDevice));
        CHECK(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill));
        cudaGraphNode_t both[] = {load, clear};
        CHECK(cudaGraphAddKernelNode(&first, graph, both, 2, &k));
        fill = fillOf((unsigned *)sum, 0);
        fill.width = 2;
        CHECK(cudaGraphAddMemsetNode(&zero, graph, nullptr, 0, &fill));
        k = kernel((void *)total, secondArgs);
        k.gridDim = k.blockDim = 1;
        cudaGraphNode_t all[] = {first, zero};
        CHECK(cudaGraphAddKernelNode(&second, graph, all, 2, &k));
        CHECK(cudaGraphAddMemcpyNode1D(&store, graph, &second, 1, &told.result, sum, sizeof *sum,
                                       cudaMemcpyDeviceToHost));
        cudaHostNodeParams host = {look, &told};
        CHECK(cudaGraphAddHostNode(&last, graph, &store, 1, &host));
    }
    ~Seven() {
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaFree(data));
        CHECK(cudaFree(part));
        CHECK(cudaFree(sum));
    }
};

// seven launches such graphs and a clone of one, first in one stream, then in two.
static void seven() {
    unsigned *in;
    unsigned long long want = 0;
    CHECK(cudaMallocHost(&in, big * sizeof *in));
    for (unsigned i = 0; i < big; i++) in[i] = rnd.next() & 0xffff;
    for (unsigned i = 0; i < seen; i++) want += in[i];
    {
        Seven one(in, want), other(in, want);
        cudaStream_t s, u;
        cudaGraph_t clone;
        CHECK(cudaStreamCreate(&s));
        CHECK(cudaStreamCreateWithFlags(&u, cudaStreamNonBlocking));
        cudaGraphExec_t e = instantiate(one.graph), f = instantiate(other.graph);
        for (unsigned i = 0; i < 3; i++) CHECK(cudaGraphLaunch(e, s));
        CHECK(cudaStreamSynchronize(s));
        printf("seven nodes: %zu, called %u, wrong %u\n", count(one.graph), one.told.calls.load(),
               one.told.wrong.load());
        CHECK(cudaGraphClone(&clone, one.graph));
        cudaGraphExec_t c = instantiate(clone);
        for (unsigned i = 0; i < 3; i++) CHECK(cudaGraphLaunch(c, s));
        CHECK(cudaStreamSynchronize(s));
        printf("a clone: called %u, wrong %u\n", one.told.calls.load(), one.told.wrong.load());
        for (unsigned i = 0; i < 4; i++) {
            CHECK(cudaGraphLaunch(e, s));
            CHECK(cudaGraphLaunch(f, u));
        }
        CHECK(cudaDeviceSynchronize());
        printf("two streams: called %u and %u, wrong %u and %u\n", one.told.calls.load(),
               other.told.calls.load(), one.told.wrong.load(), other.told.wrong.load());
        for (unsigned i = 0; i < 3; i++) {
            CHECK(cudaGraphLaunch(f, s));
            CHECK(cudaGraphLaunch(f, u)); // not before the launch in the other stream is over
        }
        CHECK(cudaGraphExecDestroy(f)); // the launches go on
        CHECK(cudaDeviceSynchronize());
        printf("one graph in two streams: called %u, wrong %u\n", other.told.calls.load(),
               other.told.wrong.load());
        CHECK(cudaGraphExecDestroy(e));
        CHECK(cudaGraphExecDestroy(c));
        CHECK(cudaGraphDestroy(clone));
        CHECK(cudaStreamDestroy(s));
        CHECK(cudaStreamDestroy(u));
    }
    CHECK(cudaFreeHost(in));
}

// Hold is a host function that returns when it is told to.
struct Hold {
    std::atomic<bool> open;
    std::atomic<unsigned> calls;
};

static void CUDART_CB hold(void *data) {
    Hold *h = static_cast<Hold *>(data);
    while (!h->open) usleep(100);
    h->calls++;
}

static cudaGraphExec_t holding(Hold *h) {
    cudaGraph_t g;
    cudaGraphNode_t node;
    cudaHostNodeParams host = {hold, h};
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddHostNode(&node, g, nullptr, 0, &host));
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaGraphDestroy(g));
    return e;
}

// behind puts more into a stream than a queue holds, behind a function that is held by another
// thread.
static void behind() {
    const unsigned launches = 2000;
    Hold h = {};
    unsigned *n, got[2];
    cudaStream_t s;
    CHECK(cudaMalloc(&n, sizeof *n));
    CHECK(cudaMemset(n, 0, sizeof *n));
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    cudaGraphExec_t e = holding(&h);
    for (bool graphs : {false, true}) {
        h.open = false;
        std::thread opens([&] { usleep(200000); h.open = true; });
        CHECK(cudaGraphLaunch(e, s));
        for (unsigned i = 0; i < launches; i++) {
            if (graphs && i % 20 == 0) CHECK(cudaGraphLaunch(e, s));
            count<<<1, 1, 0, s>>>(n);
        }
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&got[graphs], n, sizeof *n, cudaMemcpyDeviceToHost, s));
        CHECK(cudaStreamSynchronize(s));
        opens.join();
    }
    printf("behind a host function: %u kernels; between %u of them: %u\n", got[0], h.calls.load(),
           got[1]);
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaFree(n));
}

// meanwhile lets what has nothing to do with a held function go on: another stream, and a thread
// that frees and allocates.
static void meanwhile() {
    Hold h = {};
    unsigned *n, got = 0;
    cudaStream_t s, u;
    CHECK(cudaMalloc(&n, sizeof *n));
    CHECK(cudaMemset(n, 0, sizeof *n));
    for (auto x : {&s, &u}) CHECK(cudaStreamCreateWithFlags(x, cudaStreamNonBlocking));
    cudaGraphExec_t e = holding(&h);
    CHECK(cudaGraphLaunch(e, s));
    for (unsigned i = 0; i < 10; i++) count<<<1, 1, 0, u>>>(n);
    CHECK(cudaMemcpyAsync(&got, n, sizeof *n, cudaMemcpyDeviceToHost, u));
    CHECK(cudaStreamSynchronize(u));
    bool held = h.calls == 0 && cudaStreamQuery(s) == cudaErrorNotReady;
    h.open = true; // by the thread that made the calls
    CHECK(cudaStreamSynchronize(s));
    printf("meanwhile: %u kernels, the stream was %s\n", got, held ? "held" : "free");
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(u));
    CHECK(cudaFree(n));
}

int main() {
    seven();
    behind();
    meanwhile();
    return 0;
}
