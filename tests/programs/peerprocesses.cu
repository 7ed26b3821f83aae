// SPDX-License-Identifier: Apache-2.0
// Two processes, each with a GPU of its own, share memory and events: by IPC handles, by
// descriptors of memory and of pools. Kernels of each read and write what is on the other's GPU,
// and wait there for one another. With "hidden" each process sees its own GPU alone, as GPU 0.
#include "driver.h"
#include "processes.h"
#include <vector>

static const unsigned N = 1 << 18, rounds = 200;
static const auto posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static bool hidden;
static int device;

static __global__ void add(unsigned *p, unsigned n, unsigned value) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += value;
}

// Two processes count together: each waits for the other's last number, then says the next one.
static __global__ void count(volatile unsigned *mine, volatile unsigned *others, unsigned first,
                             unsigned n) {
    for (unsigned k = 0; k < n; k++) {
        if (!(first && k == 0))
            while (*others != k + !first) {}
        __threadfence_system();
        *mine = k + 1;
        __threadfence_system();
    }
}

struct Handles {
    CUipcMemHandle memory, flag;
    CUipcEventHandle event;
    CUmemPoolPtrExportData pointer;
};

// begin makes a context on GPU `gpu` of the VM's.
static void begin(int gpu) {
    CUcontext context;
    if (hidden) setenv("CUDA_VISIBLE_DEVICES", gpu ? "1" : "0", 1);
    device = hidden ? 0 : gpu;
    CHECKCU(cuInit(0));
    CHECKCU(cuDevicePrimaryCtxRetain(&context, device));
    CHECKCU(cuCtxSetCurrent(context));
}

static void put(CUdeviceptr p, unsigned first) {
    std::vector<unsigned> v(N);
    for (unsigned i = 0; i < N; i++) v[i] = first + i;
    CHECKCU(cuMemcpyHtoD(p, v.data(), N * 4));
}

static void is(CUdeviceptr p, unsigned first, const char *what) {
    std::vector<unsigned> v(N);
    unsigned wrong = 0;
    CHECKCU(cuMemcpyDtoH(v.data(), p, N * 4));
    for (unsigned i = 0; i < N; i++) wrong += v[i] != first + i;
    printf("%s: %u wrong\n", what, wrong);
}

// change has a kernel add to memory.
static void change(CUdeviceptr p, unsigned value) {
    add<<<64, 256>>>((unsigned *)p, N, value);
    CHECK(cudaGetLastError());
    CHECKCU(cuCtxSynchronize());
}

static CUmemAllocationProp properties() {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = posix;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return prop;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes) {
    CUdeviceptr p;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECKCU(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(p, bytes, 0, handle, 0));
    CHECKCU(cuMemSetAccess(p, bytes, &access, 1));
    return p;
}

static const size_t mapped = 2 << 20;

// Each tells the other its flag, and both count.
static void together(Peer peer, CUdeviceptr flag, bool first) {
    CUipcMemHandle handle;
    CUdeviceptr others;
    unsigned value;
    CHECKCU(cuMemsetD32(flag, 0, 1));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuIpcGetMemHandle(&handle, flag));
    peer.send(handle);
    peer.receive(handle);
    CHECKCU(cuIpcOpenMemHandle(&others, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    count<<<1, 1>>>((unsigned *)flag, (unsigned *)others, first, rounds);
    CHECK(cudaGetLastError());
    CHECKCU(cuCtxSynchronize());
    peer.say('d'); // both have ended: the last to count may have been the other one
    peer.hear('d');
    CHECKCU(cuMemcpyDtoH(&value, others, 4));
    if (!first) peer.hear('c');
    printf("the kernel on GPU %d has counted to %u\n", first, value);
    fflush(stdout);
    peer.say('c');
    if (first) peer.hear('c');
    CHECKCU(cuIpcCloseMemHandle(others));
}

// maker has GPU 0.
static void maker(Peer peer) {
    begin(0);
    CUdeviceptr memory, flag, pooled, at;
    CUevent event;
    CUstream stream;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    Handles h;
    int files[2];
    CHECKCU(cuMemAlloc(&memory, N * 4));
    CHECKCU(cuMemAlloc(&flag, 4));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    put(memory, 100);

    CUmemAllocationProp prop = properties();
    CHECKCU(cuMemCreate(&handle, mapped, &prop, 0));
    at = map(handle, mapped);
    put(at, 200);
    CHECKCU(cuMemExportToShareableHandle(&files[0], handle, posix, 0));

    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = posix;
    props.location = prop.location;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    CHECKCU(cuMemAllocFromPoolAsync(&pooled, N * 4, pool, stream));
    CHECKCU(cuStreamSynchronize(stream));
    put(pooled, 300);
    CHECKCU(cuMemPoolExportToShareableHandle(&files[1], pool, posix, 0));
    CHECKCU(cuMemPoolExportPointer(&h.pointer, pooled));

    CHECKCU(cuIpcGetMemHandle(&h.memory, memory));
    CHECKCU(cuIpcGetEventHandle(&h.event, event));
    peer.send(h, files[0]);
    peer.send(files[1], files[1]);

    // The other process's kernels have changed all three.
    peer.hear('a');
    is(memory, 105, "by a handle, changed");
    is(at, 206, "by a descriptor, changed");
    is(pooled, 307, "of a pool, changed");
    // What is queued behind the event is done there when this one's stream has come so far.
    for (int i = 0; i < 20; i++) {
        add<<<64, 256, 0, stream>>>((unsigned *)memory, N, 1);
        CHECK(cudaGetLastError());
        CHECKCU(cuEventRecord(event, stream));
        peer.say('e');
        peer.hear('f');
    }
    together(peer, flag, true);
    peer.hear('z');
    CHECKCU(cuMemFree(memory));
    CHECKCU(cuMemFree(flag));
    CHECKCU(cuMemFreeAsync(pooled, stream));
    CHECKCU(cuMemPoolDestroy(pool));
}

// user has GPU 1.
static void user(Peer peer) {
    begin(1);
    CUdeviceptr memory, flag, pooled, at;
    CUevent event;
    CUstream stream;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    Handles h;
    int number, files[2] = {peer.receive(h), peer.receive(number)};
    CHECKCU(cuIpcOpenMemHandle(&memory, h.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECKCU(cuIpcOpenEventHandle(&event, h.event));
    is(memory, 100, "by a handle");
    CHECKCU(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)files[0], posix));
    at = map(handle, mapped);
    is(at, 200, "by a descriptor");
    if (!hidden) {
        CUmemAllocationProp told = {};
        CHECKCU(cuMemGetAllocationPropertiesFromHandle(&told, handle));
        printf("that memory is on GPU %d\n", told.location.id);
    }
    CHECKCU(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)files[1], posix, 0));
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECKCU(cuMemPoolSetAccess(pool, &access, 1));
    CHECKCU(cuMemPoolImportPointer(&pooled, pool, &h.pointer));
    is(pooled, 300, "of a pool");
    change(memory, 5);
    change(at, 6);
    change(pooled, 7);
    fflush(stdout);
    peer.say('a');

    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr copy;
    CHECKCU(cuMemAlloc(&copy, N * 4));
    for (int i = 0; i < 20; i++) {
        peer.hear('e');
        CHECKCU(cuStreamWaitEvent(stream, event, 0));
        CHECKCU(cuMemcpyDtoDAsync(copy, memory, N * 4, stream));
        CHECKCU(cuStreamSynchronize(stream));
        unsigned value;
        CHECKCU(cuMemcpyDtoH(&value, copy, 4));
        REQUIRE(value == 106u + i);
        peer.say('f');
    }
    is(copy, 125, "behind the other process's events");
    CHECKCU(cuMemAlloc(&flag, 4));
    fflush(stdout);
    together(peer, flag, false);
    CHECKCU(cuMemFreeAsync(pooled, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemPoolDestroy(pool));
    CHECKCU(cuMemUnmap(at, mapped));
    CHECKCU(cuMemRelease(handle));
    CHECKCU(cuIpcCloseMemHandle(memory));
    CHECKCU(cuEventDestroy(event));
    fflush(stdout);
    peer.say('z');
}

int main(int argc, char **argv) {
    hidden = argc > 1 && !strcmp(argv[1], "hidden");
    setvbuf(stdout, nullptr, _IOFBF, 1 << 16);
    int ends[2], status;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[0]);
        user(Peer{ends[1], getppid()});
        exit(0);
    }
    close(ends[1]);
    maker(Peer{ends[0], child});
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("both have ended");
}
