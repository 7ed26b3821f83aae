// SPDX-License-Identifier: Apache-2.0
// Memory that graphs allocate, in every way that CUDA lets it be freed: by the graph, by the next
// launch, in a stream, by a call, by a graph of its own. The graph that allocates is launched again
// after each. A stream that took part in a capture ends before the capture does.
#include "graphs.h"
#include <thread>

static cudaStream_t stream() {
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event() {
    cudaEvent_t e;
    CHECK(cudaEventCreate(&e));
    return e;
}

static cudaMemAllocNodeParams wanted(size_t size) {
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = size;
    return p;
}

// told prints how a call ended that may be refused.
static void told(const char *what, cudaError_t e) {
    report(e, what);
    cudaGetLastError();
}

// Both is what a captured graph computes: one value of each, by two streams.
struct Both {
    Host in{false}, first{false}, second{false};
    void verify() {
        for (unsigned i = 0; i < n; i++) {
            REQUIRE(first.data[i] == mixed(in.data[i], 5, i));
            REQUIRE(second.data[i] == mixed(mixed(in.data[i], 5, i), 6, i));
        }
    }
};

// compute forks into a stream of its own, which ends before the caller's stream is synchronised, or
// its capture is ended.
static void compute(cudaStream_t s, Both &x) {
    unsigned *a, *b, *c;
    cudaStream_t side = stream();
    cudaEvent_t mixedOnce = event(), mixedTwice = event(), freed = event();
    CHECK(cudaMallocAsync(&a, bytes, s));
    CHECK(cudaMallocAsync(&b, bytes, s));
    CHECK(cudaMemcpyAsync(a, x.in.data, bytes, cudaMemcpyHostToDevice, s));
    mix<<<grid, block, 0, s>>>(b, a, n, 5);
    CHECK(cudaEventRecord(mixedOnce, s));
    CHECK(cudaStreamWaitEvent(side, mixedOnce, 0));
    CHECK(cudaMemcpyAsync(x.first.data, b, bytes, cudaMemcpyDeviceToHost, side));
    CHECK(cudaFreeAsync(a, s));
    CHECK(cudaMallocAsync(&c, bytes, s));
    mix<<<grid, block, 0, s>>>(c, b, n, 6);
    CHECK(cudaEventRecord(mixedTwice, s));
    CHECK(cudaMemcpyAsync(x.second.data, c, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaFreeAsync(c, s));
    CHECK(cudaStreamWaitEvent(side, mixedTwice, 0));
    CHECK(cudaFreeAsync(b, side));
    CHECK(cudaEventRecord(freed, side));
    CHECK(cudaStreamWaitEvent(s, freed, 0));
    CHECK(cudaStreamDestroy(side));
    for (auto e : {mixedOnce, mixedTwice, freed}) CHECK(cudaEventDestroy(e));
}

// captured does it at once, then by graphs.
static void captured() {
    Both x;
    cudaStream_t s = stream(), other = stream();
    x.in.fill();
    compute(s, x);
    CHECK(cudaStreamSynchronize(s));
    x.verify();
    cudaGraph_t g;
    CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
    compute(other, x);
    CHECK(cudaStreamEndCapture(other, &g));
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaStreamDestroy(other));
    printf("captured: %zu nodes\n", count(g));
    CHECK(cudaGraphDestroy(g));
    for (unsigned r = 0; r < replays; r++) {
        x.in.fill();
        launch(e, s);
        x.verify();
    }
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaStreamDestroy(s));
}

// unjoined ends streams that took part in a capture, in every state that they can be in.
static void unjoined() {
    for (int how = 0; how < 5; how++) {
        Device d;
        cudaStream_t s = stream(), side = stream();
        cudaEvent_t fork = event(), join = event();
        cudaGraph_t g = nullptr;
        CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        mix<<<grid, block, 0, s>>>(d.data, d.data, n, 1);
        CHECK(cudaEventRecord(fork, s));
        CHECK(cudaStreamWaitEvent(side, fork, 0));
        if (how > 0) mix<<<grid, block, 0, side>>>(d.data, d.data, n, 2);
        if (how > 1) CHECK(cudaEventRecord(join, side));
        if (how > 2) CHECK(cudaStreamWaitEvent(s, join, 0));
        if (how > 3) mix<<<grid, block, 0, side>>>(d.data, d.data, n, 3); // not joined
        told("destroy", cudaStreamDestroy(side));
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        told("is capturing", cudaStreamIsCapturing(s, &status));
        printf("status %d\n", int(status));
        if (how == 2)
            told("join by the event of a stream that is gone", cudaStreamWaitEvent(s, join, 0));
        mix<<<grid, block, 0, s>>>(d.data, d.data, n, 4);
        told("launch", cudaGetLastError());
        told("end", cudaStreamEndCapture(s, &g));
        printf("%zu nodes\n", g ? count(g) : 0);
        if (g) {
            cudaGraphExec_t e = instantiate(g);
            launch(e, s);
            CHECK(cudaGraphExecDestroy(e));
            CHECK(cudaGraphDestroy(g));
        }
        CHECK(cudaEventDestroy(fork));
        CHECK(cudaEventDestroy(join));
        CHECK(cudaStreamDestroy(s));
    }
}

// Made is a graph that allocates memory, doesn't free it and leaves what it computed there and on
// the host.
struct Made {
    Host in{true}, out{true};
    unsigned *p;
    cudaGraphExec_t exec;

    explicit Made(unsigned long long flags = 0) {
        cudaGraph_t g;
        cudaGraphNode_t allocA, allocB, load, first, freeA, second, store;
        cudaMemAllocNodeParams params = wanted(bytes);
        unsigned *a, *b, size = n, keys[] = {7, 8};
        CHECK(cudaGraphCreate(&g, 0));
        CHECK(cudaGraphAddMemAllocNode(&allocA, g, nullptr, 0, &params));
        a = (unsigned *)params.dptr;
        CHECK(cudaGraphAddMemAllocNode(&allocB, g, &allocA, 1, &params));
        b = (unsigned *)params.dptr;
        CHECK(cudaGraphAddMemcpyNode1D(&load, g, &allocB, 1, a, in.data, bytes,
                                       cudaMemcpyHostToDevice));
        void *firstArgs[] = {&b, &a, &size, &keys[0]}, *secondArgs[] = {&b, &b, &size, &keys[1]};
        cudaKernelNodeParams k = kernel((void *)mix, firstArgs);
        CHECK(cudaGraphAddKernelNode(&first, g, &load, 1, &k));
        CHECK(cudaGraphAddMemFreeNode(&freeA, g, &first, 1, a));
        k = kernel((void *)mix, secondArgs);
        CHECK(cudaGraphAddKernelNode(&second, g, &freeA, 1, &k));
        CHECK(cudaGraphAddMemcpyNode1D(&store, g, &second, 1, out.data, b, bytes,
                                       cudaMemcpyDeviceToHost));
        p = b;
        exec = instantiate(g, flags);
        CHECK(cudaGraphDestroy(g));
    }

    unsigned expected(unsigned i) const { return mixed(mixed(in.data[i], 7, i), 8, i); }

    // run launches it and uses the memory outside of it.
    void run(cudaStream_t s, Host &copy) {
        in.fill();
        CHECK(cudaGraphLaunch(exec, s));
        CHECK(cudaMemcpyAsync(copy.data, p, bytes, cudaMemcpyDeviceToHost, s));
    }
    void verify(const Host &copy) const {
        for (unsigned i = 0; i < n; i++)
            REQUIRE(out.data[i] == expected(i) && copy.data[i] == expected(i));
    }
};

static cudaGraphExec_t freeing(void *p) {
    cudaGraph_t g;
    cudaGraphNode_t node;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddMemFreeNode(&node, g, nullptr, 0, p));
    cudaGraphExec_t e = instantiate(g);
    CHECK(cudaGraphDestroy(g));
    return e;
}

// outside frees in turn by each way there is, many times, with the same graph.
static void outside() {
    Made m;
    Host copy(true);
    cudaStream_t s = stream(), u = stream();
    cudaEvent_t ready = event();
    cudaGraphExec_t f = freeing(m.p);
    for (unsigned r = 0; r < 4 * replays; r++) {
        m.run(s, copy);
        switch (r % 6) {
        case 0:
            CHECK(cudaStreamSynchronize(s));
            CHECK(cudaFree(m.p));
            break;
        case 1:
            CHECK(cudaFreeAsync(m.p, s));
            CHECK(cudaStreamSynchronize(s));
            break;
        case 2:
            CHECK(cudaGraphLaunch(f, s));
            CHECK(cudaStreamSynchronize(s));
            break;
        case 3: // in another stream, for which the first then waits
            CHECK(cudaEventRecord(ready, s));
            CHECK(cudaStreamWaitEvent(u, ready, 0));
            CHECK(cudaFreeAsync(m.p, u));
            CHECK(cudaEventRecord(ready, u));
            CHECK(cudaStreamWaitEvent(s, ready, 0));
            CHECK(cudaStreamSynchronize(s));
            break;
        case 4: // in the default stream
            CHECK(cudaStreamSynchronize(s));
            CHECK(cudaFreeAsync(m.p, nullptr));
            CHECK(cudaDeviceSynchronize());
            break;
        case 5: // by another thread
            CHECK(cudaStreamSynchronize(s));
            std::thread([&] { CHECK(cudaFree(m.p)); }).join();
            break;
        }
        m.verify(copy);
    }
    CHECK(cudaGraphExecDestroy(f));
    CHECK(cudaGraphExecDestroy(m.exec));
    CHECK(cudaEventDestroy(ready));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(u));
    puts("outside: freed in six ways");
}

// automatic lets launches free what the one before allocated, and frees the last by a call.
static void automatic() {
    Made m(cudaGraphInstantiateFlagAutoFreeOnLaunch);
    Host copy(true);
    cudaStream_t s = stream();
    for (unsigned r = 0; r < replays; r++) {
        m.run(s, copy);
        CHECK(cudaStreamSynchronize(s));
        m.verify(copy);
        if (r % 4 == 1) CHECK(cudaFree(m.p));
    }
    CHECK(cudaFree(m.p));
    m.run(s, copy);
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaGraphExecDestroy(m.exec)); // the memory stays
    CHECK(cudaMemcpy(copy.data, m.p, bytes, cudaMemcpyDeviceToHost));
    m.verify(copy);
    CHECK(cudaFree(m.p));
    CHECK(cudaStreamDestroy(s));
    puts("automatic: freed by launches and calls");
}

// refused does what can't be, after which all must be as before.
static void refused() {
    Made m;
    Host copy(true);
    cudaStream_t s = stream();
    m.run(s, copy);
    CHECK(cudaStreamSynchronize(s));
    m.verify(copy);
    told("launch while it is allocated", cudaGraphLaunch(m.exec, s));
    CHECK(cudaFree(m.p));
    cudaGraphExec_t f = freeing(m.p);
    told("a graph that frees again", cudaGraphLaunch(f, s));
    CHECK(cudaGraphExecDestroy(f));
    told("free again", cudaFree(m.p));
    told("free again in a stream", cudaFreeAsync(m.p, s));
    told("free what is inside", cudaFree(m.p + 1));
    m.run(s, copy);
    CHECK(cudaStreamSynchronize(s));
    m.verify(copy);
    CHECK(cudaFreeAsync(m.p, s));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaGraphExecDestroy(m.exec));
    CHECK(cudaStreamDestroy(s));
}

static void used(const char *when) {
    unsigned long long now = 1, kept = 1;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &now));
    CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &kept));
    printf("%s: used %llu, kept %llu\n", when, now, kept);
}

int main() {
    captured();
    unjoined();
    outside();
    automatic();
    refused();
    used("in the end");
    return 0;
}
