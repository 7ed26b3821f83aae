// SPDX-License-Identifier: Apache-2.0
// What a thread may do while it captures in relaxed mode: allocate, free, register, map, make and
// end things, use other streams. None of it waits for the capture, which a call that waits for work
// would do for ever, and none of it harms it.
#include "graphs.h"

static cudaStream_t captured;

static cudaStream_t stream() {
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

// told prints how a call ended and whether the capture goes on.
static void told(const char *what, int error) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CHECK(cudaStreamIsCapturing(captured, &status));
    printf("%s: %d, status %d\n", what, error, int(status));
    cudaGetLastError();
}

#define TOLD(call) told(#call, int(call))

// device allocates, uses and frees device memory.
static void device(cudaStream_t s) {
    unsigned *p, *q;
    TOLD(cudaMalloc(&p, bytes));
    TOLD(cudaMemsetAsync(p, 0, bytes, s));
    mix<<<grid, block, 0, s>>>(p, p, n, 3);
    TOLD(cudaGetLastError());
    TOLD(cudaFree(p)); // the work in another stream may go on
    TOLD(cudaMallocAsync(&q, bytes, s));
    TOLD(cudaMemsetAsync(q, 0, bytes, s));
    TOLD(cudaFreeAsync(q, s));
    TOLD(cudaStreamSynchronize(s));
}

// host allocates, registers and gives back memory of the host's.
static void host(cudaStream_t s, unsigned *d) {
    unsigned *p, *own = (unsigned *)aligned_alloc(4096, 8192 * 4);
    TOLD(cudaMallocHost(&p, bytes));
    TOLD(cudaMemcpyAsync(d, p, bytes, cudaMemcpyHostToDevice, s));
    TOLD(cudaStreamSynchronize(s));
    TOLD(cudaFreeHost(p));
    TOLD(cudaHostRegister(own, 8192 * 4, cudaHostRegisterDefault));
    TOLD(cudaMemcpyAsync(d, own, bytes, cudaMemcpyHostToDevice, s));
    TOLD(cudaStreamSynchronize(s));
    TOLD(cudaHostUnregister(own));
    free(own);
}

// mapped makes memory and an address for it, and undoes both.
static void mapped() {
    CUmemAllocationProp prop = {};
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access = {};
    CUdeviceptr at;
    size_t size = 2 << 20;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    TOLD(cuMemAddressReserve(&at, size, 0, 0, 0));
    TOLD(cuMemCreate(&handle, size, &prop, 0));
    TOLD(cuMemMap(at, size, 0, handle, 0));
    TOLD(cuMemSetAccess(at, size, &access, 1));
    TOLD(cuMemUnmap(at, size));
    TOLD(cuMemRelease(handle));
    TOLD(cuMemAddressFree(at, size));
}

// things makes streams, events and graphs and ends them.
static void things() {
    cudaStream_t s = stream();
    cudaEvent_t e;
    cudaGraph_t g;
    TOLD(cudaEventCreate(&e));
    TOLD(cudaEventRecord(e, s));
    TOLD(cudaEventSynchronize(e));
    TOLD(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    mix<<<grid, block, 0, s>>>(nullptr, nullptr, 0, 0);
    TOLD(cudaStreamEndCapture(s, &g));
    cudaGraphExec_t x = instantiate(g);
    TOLD(cudaGraphLaunch(x, s));
    TOLD(cudaStreamSynchronize(s));
    TOLD(cudaGraphExecDestroy(x));
    TOLD(cudaGraphDestroy(g));
    TOLD(cudaStreamDestroy(s));
    TOLD(cudaEventDestroy(e));
}

int main() {
    openDevice();
    Device d, other;
    cudaStream_t s = stream();
    captured = stream();
    cudaGraph_t g;
    mix<<<grid, block, 0, captured>>>(d.data, d.data, n, 1); // may not be over yet
    CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    mix<<<grid, block, 0, captured>>>(d.data, d.data, n, 2);
    device(s);
    host(s, other.data);
    mapped();
    things();
    mix<<<grid, block, 0, captured>>>(d.data, d.data, n, 3);
    CHECK(cudaStreamEndCapture(captured, &g));
    printf("%zu nodes\n", count(g));
    CHECK(cudaMemset(d.data, 0, bytes));
    cudaGraphExec_t e = instantiate(g);
    launch(e, captured);
    std::vector<unsigned> got(n);
    CHECK(cudaMemcpy(got.data(), d.data, bytes, cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < n; i++) REQUIRE(got[i] == mixed(mixed(0, 2, i), 3, i));
    CHECK(cudaGraphExecDestroy(e));
    CHECK(cudaGraphDestroy(g));
    for (auto x : {s, captured}) CHECK(cudaStreamDestroy(x));
    return 0;
}
