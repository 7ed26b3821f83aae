// SPDX-License-Identifier: Apache-2.0
// Memory that is mapped by hand and keeps what is in it, round after round: as many as the argument
// says, 0 for no end. One is mapped twice, once for reading alone, and is written by one address
// and read by the other. One is mapped only now and then. One has no handle any more, until the
// mapping is asked for it. One grows piece by piece, as PyTorch's does, and shrinks. All is
// compared.
#include "driver.h"
#include <vector>

static const unsigned words = 64, most = 6, blocks = 16, threads = 256;

static __global__ void step(uint32_t *p, uint32_t add) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + add + threadIdx.x;
}

static __global__ void fill(uint32_t *p, uint32_t value) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    p[i] = value ^ i;
}

// differ counts the words that fill didn't write.
static __global__ void differ(const uint32_t *p, uint32_t value, unsigned *count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (p[i] != (value ^ i)) atomicAdd(count, 1);
}

static CUmemAllocationProp prop;
static size_t piece;

static CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void map(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle,
                CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = flags;
    CHECKCU(cuMemMap(at, bytes, 0, handle, 0));
    CHECKCU(cuMemSetAccess(at, bytes, &access, 1));
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr at;
    CHECKCU(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

static void allows(CUdeviceptr at, unsigned long long want) {
    unsigned long long flags = 7;
    CHECKCU(cuMemGetAccess(&flags, &prop.location, at));
    REQUIRE(flags == want);
}

// Steps is what some words become, step by step.
struct Steps {
    uint32_t want[words] = {};

    void take(CUdeviceptr at, uint32_t add, CUstream stream) {
        step<<<1, words, 0, stream>>>((uint32_t *)at, add);
        CHECK(cudaGetLastError());
        for (unsigned k = 0; k < words; k++) want[k] = want[k] * 1664525u + add + k;
    }
    void compare(CUdeviceptr at, CUstream stream) {
        uint32_t has[words];
        CHECKCU(cuMemcpyDtoHAsync(has, at, sizeof has, stream));
        CHECKCU(cuStreamSynchronize(stream));
        REQUIRE(memcmp(has, want, sizeof want) == 0);
    }
};

// Growing is mapped piece by piece. The end of each piece is filled when it comes.
struct Growing {
    CUdeviceptr range = reserve(most * piece);
    unsigned *count;
    std::vector<uint32_t> values;

    uint32_t *end(size_t i) { return (uint32_t *)(range + (i + 1) * piece) - blocks * threads; }
    void grow(uint32_t value, CUstream stream) {
        const CUdeviceptr at = range + values.size() * piece;
        const CUmemGenericAllocationHandle handle = create(piece);
        map(at, piece, handle);
        CHECKCU(cuMemRelease(handle));
        fill<<<blocks, threads, 0, stream>>>(end(values.size()), value);
        CHECK(cudaGetLastError());
        values.push_back(value);
    }
    void compare(CUstream stream) {
        unsigned n;
        CHECK(cudaMemsetAsync(count, 0, sizeof n, stream));
        for (size_t i = 0; i < values.size(); i++)
            differ<<<blocks, threads, 0, stream>>>(end(i), values[i], count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(&n, count, sizeof n, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(n == 0);
    }
    void shrink(size_t left, CUstream stream) {
        CHECK(cudaStreamSynchronize(stream));
        CHECKCU(cuMemUnmap(range + left * piece, (values.size() - left) * piece));
        values.resize(left);
    }
};

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = openDevice();
    CHECKCU(cuMemGetAllocationGranularity(&piece, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CUstream stream;
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    Growing growing;
    CHECK(cudaMalloc(&growing.count, sizeof *growing.count));

    const CUmemGenericAllocationHandle twice = create(2 * piece), hidden = create(piece);
    const CUdeviceptr writes = reserve(2 * piece), reads = reserve(4 * piece) + 2 * piece;
    const CUdeviceptr window = reserve(piece), alone = reserve(2 * piece) + piece;
    map(writes, 2 * piece, twice);
    map(reads, 2 * piece, twice, CU_MEM_ACCESS_FLAGS_PROT_READ);
    map(window, piece, hidden);
    prop.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC; // where there is any
    CUmemGenericAllocationHandle handle = create(piece);
    CUmemAllocationProp before = {}, now = {};
    CHECKCU(cuMemGetAllocationPropertiesFromHandle(&before, handle));
    prop.allocFlags.compressionType = 0;
    map(alone, piece, handle);
    CHECKCU(cuMemRelease(handle));
    const size_t last = 2 * piece - words * 4;
    for (CUdeviceptr p : {writes, window, alone}) CHECKCU(cuMemsetD8(p, 0, piece));
    CHECKCU(cuMemsetD8(writes + last, 0, words * 4));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuMemUnmap(window, piece));
    Steps inTwice, inHidden, inAlone;

    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        inTwice.take(writes + last, i, stream);
        inAlone.take(alone, i, stream);
        growing.grow(i * 2654435761u, stream);
        inTwice.compare(reads + last, stream);
        inAlone.compare(alone, stream);
        growing.compare(stream);
        if (growing.values.size() == most) growing.shrink(i % 3, stream);
        if (i % 4 == 3) {
            map(window, piece, hidden);
            inHidden.compare(window, stream);
            inHidden.take(window, i, stream);
            CHECKCU(cuStreamSynchronize(stream));
            CHECKCU(cuMemUnmap(window, piece));
        }
        allows(writes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        allows(reads, CU_MEM_ACCESS_FLAGS_PROT_READ);
        CHECKCU(cuMemRetainAllocationHandle(&handle, (void *)(reads + 5)));
        REQUIRE(handle == twice);
        CHECKCU(cuMemRelease(handle));
        CHECKCU(cuMemRetainAllocationHandle(&handle, (void *)alone));
        CHECKCU(cuMemGetAllocationPropertiesFromHandle(&now, handle));
        REQUIRE(now.allocFlags.compressionType == before.allocFlags.compressionType);
        CHECKCU(cuMemRelease(handle));
    }
    printf("%d rounds of memory that is mapped by hand\n", i);
    return 0;
}
