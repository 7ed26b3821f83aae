// SPDX-License-Identifier: Apache-2.0
// Two processes that share memory by a handle, by a descriptor and by a pool, and take turns with
// it, ordered by events that they share: as many rounds as the argument says, 0 for no end. The
// other process opens the memory anew now and then, by descriptors that are open all the time, and
// one that lies in a socket for some rounds. What both have computed is compared each round.
#include "driver.h"
#include "processes.h"
#include <vector>

static const unsigned words = 64, ways = 3, pooled = 1, mapped = 2, often = 8;
static const CUmemAllocationHandleType posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static __global__ void step(uint32_t *p, uint32_t add) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + add + threadIdx.x;
}

struct Handles {
    CUipcMemHandle memory;
    CUipcEventHandle mine, yours;
    CUmemPoolPtrExportData pooled;
    size_t bytes; // of what the descriptor names
    int rounds;
};

// Place is what a process has of the memory, and of the events.
struct Place {
    CUdeviceptr at[ways];
    CUevent mine, yours;
    CUstream stream;

    // turn waits for the other process's work, and computes.
    void turn(bool waits, uint32_t add) {
        if (waits) CHECKCU(cuStreamWaitEvent(stream, yours, 0));
        for (unsigned k = 0; k < ways; k++)
            step<<<1, words, 0, stream>>>((uint32_t *)at[k], add);
        CHECK(cudaGetLastError());
        CHECKCU(cuEventRecord(mine, stream));
    }
};

// map has what a descriptor names at an address of this process.
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes, CUdevice device) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUdeviceptr p;
    CHECKCU(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    CHECKCU(cuMemMap(p, bytes, 0, handle, 0));
    CHECKCU(cuMemSetAccess(p, bytes, &access, 1));
    return p;
}

// sharePool shares memory of a pool, and returns the pool's descriptor.
static int sharePool(Place &p, Handles &h, CUdevice device) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = posix;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    CUmemoryPool pool;
    int descriptor = -1;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    CHECKCU(cuMemAllocFromPoolAsync(&p.at[pooled], words * 4, pool, p.stream));
    CHECKCU(cuStreamSynchronize(p.stream));
    CHECKCU(cuMemPoolExportToShareableHandle(&descriptor, pool, posix, 0));
    CHECKCU(cuMemPoolExportPointer(&h.pooled, p.at[pooled]));
    return descriptor;
}

// shareMapped shares memory without an address, and returns its handle.
static CUmemGenericAllocationHandle shareMapped(Place &p, Handles &h, CUdevice device) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = posix;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    CUmemGenericAllocationHandle handle;
    CHECKCU(cuMemGetAllocationGranularity(&h.bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECKCU(cuMemCreate(&handle, h.bytes, &prop, 0));
    p.at[mapped] = map(handle, h.bytes, device);
    return handle;
}

// exported is a descriptor of memory.
static int exported(CUmemGenericAllocationHandle handle) {
    int descriptor = -1;
    CHECKCU(cuMemExportToShareableHandle(&descriptor, handle, posix, 0));
    return descriptor;
}

static int mail[2]; // where a descriptor lies for some rounds

// Taken is what the other process has by descriptors.
struct Taken {
    CUmemoryPool pool;

    void take(Place &p, const Handles &h, CUdevice device, int memory, int pools) {
        CUmemGenericAllocationHandle handle;
        CHECKCU(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)pools, posix, 0));
        CHECKCU(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)memory, posix));
        p.at[mapped] = map(handle, h.bytes, device);
        CHECKCU(cuMemRelease(handle));
        CUmemPoolPtrExportData data = h.pooled;
        CHECKCU(cuMemPoolImportPointer(&p.at[pooled], pool, &data));
    }

    // again gives that up, and takes it once more.
    void again(Place &p, const Handles &h, CUdevice device, int memory, int pools) {
        CHECKCU(cuMemFreeAsync(p.at[pooled], p.stream));
        CHECKCU(cuStreamSynchronize(p.stream));
        CHECKCU(cuMemPoolDestroy(pool));
        CHECKCU(cuMemUnmap(p.at[mapped], h.bytes));
        CHECKCU(cuMemAddressFree(p.at[mapped], h.bytes));
        char word;
        const int sent = Peer{mail[1], 0}.receive(word);
        take(p, h, device, word == 's' ? sent : memory, pools);
        close(sent);
    }
};

static void other(Peer first) {
    const CUdevice device = openDevice();
    Handles h;
    const int descriptor = first.receive(h);
    Place p = {};
    CHECKCU(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuIpcOpenMemHandle(&p.at[0], h.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECKCU(cuIpcOpenEventHandle(&p.yours, h.mine));
    CHECKCU(cuIpcOpenEventHandle(&p.mine, h.yours));
    char word;
    const int pool = first.receive(word);
    Taken taken;
    taken.take(p, h, device, descriptor, pool);
    for (int i = 0; i < h.rounds || !h.rounds; i++) {
        first.hear('t');
        p.turn(true, 2 * i + 1);
        if (i % often == often - 1) {
            CHECKCU(cuStreamSynchronize(p.stream));
            CHECKCU(cuIpcCloseMemHandle(p.at[0]));
            CHECKCU(cuIpcOpenMemHandle(&p.at[0], h.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
            taken.again(p, h, device, descriptor, pool);
        }
        first.say('t');
    }
    CHECKCU(cuStreamSynchronize(p.stream));
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, mail) == 0);
    Peer peer = start(other);
    const CUdevice device = openDevice();
    Handles h = {};
    h.rounds = rounds;
    Place p = {};
    CHECKCU(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));

    CHECKCU(cuMemAlloc(&p.at[0], words * 4));
    CHECKCU(cuIpcGetMemHandle(&h.memory, p.at[0]));
    const unsigned flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    CHECKCU(cuEventCreate(&p.mine, flags));
    CHECKCU(cuEventCreate(&p.yours, flags));
    CHECKCU(cuIpcGetEventHandle(&h.mine, p.mine));
    CHECKCU(cuIpcGetEventHandle(&h.yours, p.yours));

    const int pool = sharePool(p, h, device);
    const CUmemGenericAllocationHandle memory = shareMapped(p, h, device);
    const int descriptor = exported(memory);
    for (CUdeviceptr at : p.at) CHECKCU(cuMemsetD8(at, 0, words * 4));
    CHECKCU(cuCtxSynchronize());
    peer.send(h, descriptor);
    peer.send('p', pool);
    close(pool);

    uint32_t want[words] = {}, has[ways][words];
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        p.turn(i > 0, 2 * i);
        if (i % often == often / 2) { // the other process takes it some rounds later
            const int sent = exported(memory);
            Peer{mail[0], 0}.send(i % (2 * often) < often ? 's' : 'o', sent);
            close(sent);
        }
        peer.say('t');
        peer.hear('t');
        CHECKCU(cuStreamWaitEvent(p.stream, p.yours, 0));
        for (unsigned k = 0; k < ways; k++)
            CHECKCU(cuMemcpyDtoHAsync(has[k], p.at[k], sizeof has[k], p.stream));
        CHECKCU(cuStreamSynchronize(p.stream));
        for (unsigned turn = 0; turn < 2; turn++)
            for (unsigned k = 0; k < words; k++) want[k] = want[k] * 1664525u + 2 * i + turn + k;
        for (unsigned k = 0; k < ways; k++) REQUIRE(!memcmp(has[k], want, sizeof want));
    }
    peer.end();
    printf("%d rounds of two processes\n", i);
    return 0;
}
