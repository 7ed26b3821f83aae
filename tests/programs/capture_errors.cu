// SPDX-License-Identifier: Apache-2.0
// Does in captures what CUDA forbids there, and tells the errors and what became of the captures.
// In the end the device must work as before.
#include "driver.h"
#include <thread>
#include <vector>

static const unsigned n = 1000;
static unsigned *data;

static __global__ void add(unsigned *p, unsigned n, unsigned value) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += value;
}

static void work(cudaStream_t s) { add<<<(n + 127) / 128, 128, 0, s>>>(data, n, 1); }

static cudaStream_t stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, flags));
    return s;
}

static cudaEvent_t event() {
    cudaEvent_t e;
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static void begin(cudaStream_t s, cudaStreamCaptureMode mode) {
    CHECK(cudaStreamBeginCapture(s, mode));
}

static void told(const char *what, cudaError_t e) {
    report(e, what);
    cudaGetLastError();
}

// ended ends a capture; it must be over then, and without a graph if there was an error.
static void ended(const char *what, cudaStream_t s) {
    cudaGraph_t g = (cudaGraph_t)&data;
    cudaError_t e = cudaStreamEndCapture(s, &g);
    told(what, e);
    REQUIRE((e == cudaSuccess) == (g != nullptr));
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    CHECK(cudaStreamIsCapturing(s, &status));
    REQUIRE(status == cudaStreamCaptureStatusNone);
    if (g) CHECK(cudaGraphDestroy(g));
}

static void beginnings() {
    cudaStream_t s = stream();
    cudaGraph_t g;
    told("begin in the legacy stream",
         cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal));
    told("end without begin", cudaStreamEndCapture(s, &g));
    begin(s, cudaStreamCaptureModeGlobal);
    told("begin twice", cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphDestroy(g));
    begin(s, cudaStreamCaptureModeRelaxed);
    ended("end of nothing", s);
    CHECK(cudaStreamDestroy(s));
}

static void waiting() {
    cudaStream_t s = stream();
    begin(s, cudaStreamCaptureModeRelaxed);
    work(s);
    CHECK(cudaGetLastError());
    told("synchronize the stream", cudaStreamSynchronize(s));
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(s, &status));
    printf("status: %d\n", int(status));
    work(s);
    told("launch after that", cudaGetLastError());
    told("fill after that", cudaMemsetAsync(data, 0, 4, s));
    ended("end", s);
    begin(s, cudaStreamCaptureModeRelaxed);
    told("query the stream", cudaStreamQuery(s));
    ended("end", s);
    begin(s, cudaStreamCaptureModeRelaxed);
    told("synchronize the device", cudaDeviceSynchronize());
    ended("end", s);
    CHECK(cudaStreamDestroy(s));
}

static void legacy() {
    cudaStream_t s = stream(cudaStreamDefault), t = stream();
    cudaStreamCaptureStatus status;
    begin(s, cudaStreamCaptureModeRelaxed);
    work(s);
    told("ask the legacy stream", cudaStreamIsCapturing(cudaStreamLegacy, &status));
    ended("end", s);
    begin(s, cudaStreamCaptureModeRelaxed);
    work(cudaStreamLegacy);
    told("launch in the legacy stream", cudaGetLastError());
    ended("end", s);
    begin(s, cudaStreamCaptureModeRelaxed);
    unsigned word = 0;
    told("copy in the legacy stream", cudaMemcpy(data, &word, 4, cudaMemcpyHostToDevice));
    ended("end", s);
    // A non-blocking stream has nothing to do with it.
    begin(t, cudaStreamCaptureModeRelaxed);
    work(t);
    work(cudaStreamLegacy);
    told("launch in the legacy stream", cudaGetLastError());
    ended("end", t);
    CHECK(cudaStreamSynchronize(cudaStreamLegacy));
    CHECK(cudaStreamDestroy(s));
    CHECK(cudaStreamDestroy(t));
}

static void forks() {
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t e = event(), f = event();
    begin(a, cudaStreamCaptureModeRelaxed);
    work(a);
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaStreamWaitEvent(b, e, 0));
    work(b);
    ended("end with a fork that isn't joined", a);
    cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(b, &status));
    REQUIRE(status == cudaStreamCaptureStatusNone);

    begin(a, cudaStreamCaptureModeRelaxed);
    work(a);
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaStreamWaitEvent(b, e, 0));
    cudaGraph_t g;
    told("end in another stream", cudaStreamEndCapture(b, &g));
    cudaStreamEndCapture(a, &g);
    cudaGetLastError();

    begin(a, cudaStreamCaptureModeRelaxed);
    begin(b, cudaStreamCaptureModeRelaxed);
    work(a);
    work(b);
    CHECK(cudaEventRecord(e, a));
    told("wait for another capture", cudaStreamWaitEvent(b, e, 0));
    ended("end of the one", a);
    ended("end of the other", b);

    work(b);
    CHECK(cudaEventRecord(f, b));
    begin(a, cudaStreamCaptureModeRelaxed);
    work(a);
    told("wait for work outside", cudaStreamWaitEvent(a, f, 0));
    ended("end", a);

    begin(a, cudaStreamCaptureModeRelaxed);
    work(a);
    CHECK(cudaEventRecord(e, a));
    told("query an event of the capture", cudaEventQuery(e));
    ended("end", a);
    begin(a, cudaStreamCaptureModeRelaxed);
    work(a);
    CHECK(cudaEventRecord(e, a));
    told("synchronize an event of the capture", cudaEventSynchronize(e));
    ended("end", a);
    // Recorded outside, the event is an ordinary one again.
    CHECK(cudaEventRecord(e, a));
    CHECK(cudaEventSynchronize(e));
    for (auto x : {e, f}) CHECK(cudaEventDestroy(x));
    for (auto x : {a, b}) CHECK(cudaStreamDestroy(x));
}

// elsewhere calls f in a thread of its own.
template <typename F> static void elsewhere(F f) { std::thread(f).join(); }

static std::vector<void *> allocated; // freed when no stream is captured

static cudaError_t allocate() {
    void *p = nullptr;
    cudaError_t e = cudaMalloc(&p, 5000);
    if (e == cudaSuccess) allocated.push_back(p);
    return e;
}

static void threads() {
    cudaStream_t s = stream();
    cudaGraph_t g = nullptr;
    begin(s, cudaStreamCaptureModeThreadLocal);
    work(s);
    elsewhere([&] { told("end in another thread", cudaStreamEndCapture(s, &g)); });
    cudaStreamEndCapture(s, &g);
    cudaGetLastError();

    begin(s, cudaStreamCaptureModeRelaxed);
    elsewhere([&] {
        work(s);
        ended("relaxed: end in another thread", s);
    });
    begin(s, cudaStreamCaptureModeRelaxed);
    told("relaxed: allocate", allocate());
    ended("end", s);
    begin(s, cudaStreamCaptureModeThreadLocal);
    elsewhere([] { told("thread-local: allocate in another thread", allocate()); });
    ended("end", s);
    begin(s, cudaStreamCaptureModeThreadLocal);
    told("thread-local: allocate", allocate());
    ended("end", s);
    begin(s, cudaStreamCaptureModeGlobal);
    told("global: allocate", allocate());
    ended("end", s);
    begin(s, cudaStreamCaptureModeGlobal);
    elsewhere([] { told("global: allocate in another thread", allocate()); });
    ended("end", s);
    begin(s, cudaStreamCaptureModeGlobal);
    elsewhere([] {
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
        REQUIRE(mode == cudaStreamCaptureModeGlobal);
        told("global: allocate in a relaxed thread", allocate());
    });
    ended("end", s);
    for (void *p : allocated) CHECK(cudaFree(p));
    CHECK(cudaStreamDestroy(s));
}

static void refused(const char *what, cudaError_t e) {
    REQUIRE(e != cudaSuccess);
    printf("%s: refused\n", what);
    cudaGetLastError();
}

static cudaError_t depend(cudaGraph_t g, cudaGraphNode_t from, cudaGraphNode_t to) {
#if CUDART_VERSION >= 13000
    return cudaGraphAddDependencies(g, &from, &to, nullptr, 1);
#else
    return cudaGraphAddDependencies(g, &from, &to, 1);
#endif
}

static void graphs() {
    cudaGraph_t g, copy;
    cudaGraphExec_t e;
    cudaGraphNode_t a, b;
    CHECK(cudaGraphCreate(&g, 0));
    CHECK(cudaGraphAddEmptyNode(&a, g, nullptr, 0));
    CHECK(cudaGraphAddEmptyNode(&b, g, &a, 1));
    refused("an edge that is there", depend(g, a, b));
    cudaError_t result = depend(g, b, a);
    if (result == cudaSuccess) result = cudaGraphInstantiateWithFlags(&e, g, 0);
    refused("a cycle", result);
    CHECK(cudaGraphDestroy(g));

    cudaStream_t s = stream();
    CHECK(cudaGraphCreate(&g, 0));
    cudaMemAllocNodeParams params = {};
    params.poolProps.allocType = cudaMemAllocationTypePinned;
    params.poolProps.location.type = cudaMemLocationTypeDevice;
    params.bytesize = 1 << 20;
    CHECK(cudaGraphAddMemAllocNode(&a, g, nullptr, 0, &params));
    refused("to clone a graph that allocates", cudaGraphClone(&copy, g));
    refused("to destroy a node that allocates", cudaGraphDestroyNode(a));
    CHECK(cudaGraphInstantiateWithFlags(&e, g, 0));
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaStreamSynchronize(s));
    result = cudaGraphLaunch(e, s);
    if (result == cudaSuccess) result = cudaStreamSynchronize(s);
    refused("to allocate twice", result);
    CHECK(cudaFreeAsync(params.dptr, s));
    CHECK(cudaGraphLaunch(e, s));
    CHECK(cudaFreeAsync(params.dptr, s));
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    CHECK(cudaStreamDestroy(s));
}

int main() {
    openDevice();
    CHECK(cudaMalloc(&data, n * sizeof *data));
    beginnings();
    waiting();
    legacy();
    forks();
    threads();
    graphs();
    CHECK(cudaMemset(data, 0, n * sizeof *data));
    work(cudaStreamLegacy);
    CHECK(cudaGetLastError());
    std::vector<unsigned> got(n);
    CHECK(cudaMemcpy(got.data(), data, n * sizeof *data, cudaMemcpyDeviceToHost));
    for (unsigned v : got) REQUIRE(v == 1);
    CHECK(cudaFree(data));
    puts("the device works");
    return 0;
}
