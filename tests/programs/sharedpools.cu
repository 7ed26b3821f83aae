// SPDX-License-Identifier: Apache-2.0
// Memory of a pool is used by two processes: one makes the pool and allocates, the other gets a
// descriptor of the pool and the names of pointers. Contents are random; what must not change is
// looked at.
#include "driver.h"
#include "processes.h"
#include <fcntl.h>
#include <vector>

static CUdevice device;
static const CUmemAllocationHandleType posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static const int blocks = 24;
static const size_t guard = 64; // bytes at both ends of a block that only its maker writes

static __global__ void mix(unsigned *p, size_t n, unsigned key) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] = (p[i] ^ key) * 2654435761u;
}

// Block is memory and what is in it.
struct Block {
    CUdeviceptr at;
    std::vector<unsigned> want;

    static size_t words(int i) {
        return i % 8 == 7 ? (3 + i) << 17 : Random{uint64_t(i)}.below(100000) + 64;
    }

    void fill(int i) {
        want.resize(words(i));
        Random r = {uint64_t(1000 + i)};
        for (auto &w : want) w = r.next();
    }
    void put(CUstream stream) {
        CHECKCU(cuMemcpyHtoDAsync(at, want.data(), want.size() * 4, stream));
    }
    void verify() {
        static std::vector<unsigned> got;  // kept: a guest's page faults are dear
        got.assign(want.size(), 0);
        CHECKCU(cuMemcpyDtoH(got.data(), at, got.size() * 4));
        REQUIRE(got == want);
    }
    // change is what the other process does between the guards.
    void change(CUstream stream, unsigned key) {
        mix<<<16, 256, 0, stream>>>((unsigned *)(at + guard), want.size() - guard / 2, key);
        CHECK(cudaGetLastError());
    }
    void expect(unsigned key) {
        for (size_t i = guard / 4; i < want.size() - guard / 4; i++)
            want[i] = (want[i] ^ key) * 2654435761u;
    }
};

struct Names {
    CUmemPoolPtrExportData name[blocks];
};

static CUmemoryPool makePool(CUmemAllocationHandleType types) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    CUmemoryPool pool;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUstream makeStream() {
    CUstream stream;
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

#define REFUSES(call) REQUIRE((call) != CUDA_SUCCESS)

static void maker(Peer broker) {
    device = openDevice();
    int types = 0;
    CHECKCU(
        cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, device));
    printf("pools as POSIX file descriptors: %d\n", types & posix);
    CUmemoryPool pool = makePool(posix), other = makePool(CU_MEM_HANDLE_TYPE_NONE);
    CUstream stream = makeStream();
    // Each exported block has neighbours that are not.
    Block block[blocks], between[blocks], plain;
    for (int i = 0; i < blocks; i++) {
        block[i].fill(i);
        between[i].fill(100 + i % 7);
        CHECKCU(cuMemAllocFromPoolAsync(&block[i].at, block[i].want.size() * 4, pool, stream));
        CHECKCU(cuMemAllocFromPoolAsync(&between[i].at, between[i].want.size() * 4,
                                        i % 2 ? pool : other, stream));
        block[i].put(stream);
        between[i].put(stream);
    }
    plain.fill(50);
    CHECKCU(cuMemAlloc(&plain.at, plain.want.size() * 4));
    plain.put(stream);
    CHECKCU(cuStreamSynchronize(stream));

    int fd = -1;
    CHECKCU(cuMemPoolExportToShareableHandle(&fd, pool, posix, 0));
    Names names;
    for (int i = 0; i < blocks; i++) CHECKCU(cuMemPoolExportPointer(&names.name[i], block[i].at));
    CUmemPoolPtrExportData none;
    int nothing = -1;
    REFUSES(cuMemPoolExportToShareableHandle(&nothing, other, posix, 0));
    REFUSES(cuMemPoolExportToShareableHandle(&nothing, pool, CU_MEM_HANDLE_TYPE_WIN32, 0));
    REFUSES(cuMemPoolExportToShareableHandle(&nothing, pool, posix, 1));
    REFUSES(cuMemPoolExportPointer(&none, plain.at));
    REFUSES(cuMemPoolExportPointer(&none, between[0].at));
    REQUIRE(nothing == -1);
    broker.send(names, fd);
    close(fd);

    // The other one has changed all blocks, and has freed them.
    broker.hear('x');
    for (int i = 0; i < blocks; i++) {
        block[i].expect(i + 1);
        block[i].verify();
        between[i].verify();
    }
    plain.verify();
    // They are this one's to use again.
    for (int i = 0; i < blocks; i++) {
        block[i].change(stream, 77);
        CHECKCU(cuStreamSynchronize(stream));
        block[i].expect(77);
        block[i].verify();
        CHECKCU(cuMemFreeAsync(block[i].at, stream));
        CHECKCU(cuMemFreeAsync(between[i].at, stream));
    }
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemFree(plain.at));
    CHECKCU(cuMemPoolDestroy(pool));
    CHECKCU(cuMemPoolDestroy(other));
}

static void user(Peer broker) {
    device = openDevice();
    Names names;
    int fd = broker.receive(names);
    CUmemoryPool pool, wrong;
    REFUSES(cuMemPoolImportFromShareableHandle(&wrong, (void *)(intptr_t)open("/dev/null", O_RDWR),
                                               posix, 0));
    REFUSES(cuMemPoolImportFromShareableHandle(&wrong, (void *)(intptr_t)broker.socket, posix, 0));
    REFUSES(cuMemPoolImportFromShareableHandle(&wrong, (void *)(intptr_t)-1, posix, 0));
    CHECKCU(cuMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, posix, 0));
    close(fd);
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemAccess_flags access;
    CHECKCU(cuMemPoolGetAccess(&access, pool, &location));
    if (access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        CUmemAccessDesc desc = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CHECKCU(cuMemPoolSetAccess(pool, &desc, 1));
    }
    CUstream stream = makeStream();
    CUdeviceptr p;
    REFUSES(cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream));
    REFUSES(cuDeviceSetMemPool(device, pool));

    Block block[blocks], mine;
    mine.fill(60);
    CHECKCU(cuMemAllocAsync(&mine.at, mine.want.size() * 4, stream));
    mine.put(stream);
    for (int i = blocks; i-- > 0;) {
        CHECKCU(cuMemPoolImportPointer(&block[i].at, pool, &names.name[i]));
        block[i].fill(i);
    }
    for (int i = 0; i < blocks; i++) {
        block[i].verify();
        block[i].change(stream, i + 1);
    }
    CHECKCU(cuStreamSynchronize(stream));
    for (int i = 0; i < blocks; i++) {
        block[i].expect(i + 1);
        block[i].verify();
    }
    mine.verify();
    // Freed here, they are the maker's still.
    for (int i = 0; i < blocks; i++)
        if (i % 3) CHECKCU(cuMemFreeAsync(block[i].at, stream));
        else CHECKCU(cuMemFree(block[i].at));
    CHECKCU(cuStreamSynchronize(stream));
    // Once more, where that is possible: what was freed is imported again.
    if (cuMemPoolImportPointer(&block[1].at, pool, &names.name[1]) == CUDA_SUCCESS) {
        block[1].verify();
        CHECKCU(cuMemFreeAsync(block[1].at, stream));
        CHECKCU(cuStreamSynchronize(stream));
    }
    CHECKCU(cuMemPoolDestroy(pool));
    CHECKCU(cuMemFreeAsync(mine.at, stream));
    CHECKCU(cuStreamSynchronize(stream));
    broker.say('x');
}

int main() {
    Peer one = start(maker), other = start(user);
    Names names;
    int fd = one.receive(names);
    other.send(names, fd);
    close(fd);
    other.hear('x');
    other.end();
    one.say('x');
    one.end();
    puts("both used the memory of the pool");
    return 0;
}
