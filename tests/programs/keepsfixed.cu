// SPDX-License-Identifier: Apache-2.0
// What keeps a program where it is, used round after round: as many as the argument says, 0 for no
// end. Memory of graphs' nodes (which keeps it on a real GPU only), memory that kernels allocate, a
// green context, and a linker that takes several rounds; and memory that is mapped by hand and
// mapped anew, which moves. All is compared each round.
#include "driver.h"
#include <vector>

static const unsigned words = 64;

static __global__ void step(uint32_t *p, uint32_t add) {
    p[threadIdx.x] = p[threadIdx.x] * 1664525u + add + threadIdx.x;
}

// grow has a list of what kernels allocate: each round begins with one piece more, up to a bound.
static __global__ void grow(uint32_t **list, uint32_t round) {
    uint32_t *piece = (uint32_t *)malloc(64);
    piece[0] = round;
    free(list[round % 8]);
    list[round % 8] = piece;
}

static __global__ void look(uint32_t **list, uint32_t n, uint32_t *out) {
    out[threadIdx.x] = threadIdx.x < n ? list[threadIdx.x][0] : 0;
}

static const char caller[] = R"(
.version 7.0
.target sm_75
.address_size 64
.extern .func (.param .b32 out) twice(.param .b32 in);
.visible .entry apply(.param .u64 p, .param .u32 n)
{
    .reg .b32 %v;
    .reg .b64 %a;
    ld.param.u64 %a, [p];
    cvta.to.global.u64 %a, %a;
    ld.param.u32 %v, [n];
    {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %v;
        call.uni (out), twice, (in);
        ld.param.b32 %v, [out];
    }
    st.global.u32 [%a], %v;
    ret;
}
)";

static const char callee[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 out) twice(.param .b32 in)
{
    .reg .b32 %v;
    ld.param.b32 %v, [in];
    add.u32 %v, %v, %v;
    st.param.b32 [out], %v;
    ret;
}
)";

// Mapped is memory that is mapped by hand, at another address each time.
struct Mapped {
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access = {};
    size_t bytes;
    CUdeviceptr range, at;
    unsigned moves = 0;

    void make(CUdevice device) {
        CUmemAllocationProp prop = {};
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        prop.location.id = device;
        access.location = prop.location;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CHECKCU(cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        CHECKCU(cuMemCreate(&handle, bytes, &prop, 0));
        CHECKCU(cuMemAddressReserve(&range, 4 * bytes, 0, 0, 0));
        map();
        CHECKCU(cuMemsetD8(at, 0, words * 4));
    }
    void map() {
        at = range + moves++ % 4 * bytes;
        CHECKCU(cuMemMap(at, bytes, 0, handle, 0));
        CHECKCU(cuMemSetAccess(at, bytes, &access, 1));
    }
    void move() {
        CHECKCU(cuCtxSynchronize());
        CHECKCU(cuMemUnmap(at, bytes));
        map();
    }
};

// Linking is a linker, to which each round adds something.
struct Linking {
    CUlinkState link;
    CUmodule module = nullptr;
    CUfunction function;

    void add(const char *text, size_t size) {
        CHECKCU(
            cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)text, size, "text", 0, nullptr, nullptr));
    }
    void round(int i) {
        void *image;
        size_t size;
        switch (i % 4) {
        case 0: CHECKCU(cuLinkCreate(0, nullptr, nullptr, &link)); break;
        case 1: add(caller, sizeof caller); break;
        case 2: add(callee, sizeof callee); break;
        case 3:
            CHECKCU(cuLinkComplete(link, &image, &size));
            if (module) CHECKCU(cuModuleUnload(module));
            CHECKCU(cuModuleLoadData(&module, image));
            CHECKCU(cuModuleGetFunction(&function, module, "apply"));
            CHECKCU(cuLinkDestroy(link));
        }
    }
};

// green is a stream of a green context that has half of the multiprocessors.
static CUstream green(CUdevice device) {
    CUdevResource whole, part, remaining;
    unsigned n = 1;
    CHECKCU(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
    const unsigned half = (whole.sm.smCount + 1) / 2;
    CHECKCU(cuDevSmResourceSplitByCount(&part, &n, &whole, &remaining, 0, half));
    REQUIRE(n == 1);
    CUdevResourceDesc desc;
    CUgreenCtx context;
    CUcontext inside;
    CUstream stream;
    CHECKCU(cuDevResourceGenerateDesc(&desc, &part, 1));
    CHECKCU(cuGreenCtxCreate(&context, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECKCU(cuCtxFromGreenCtx(&inside, context));
    CHECKCU(cuCtxPushCurrent(inside));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuCtxPopCurrent(&inside));
    return stream;
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    const CUdevice device = openDevice();
    Mapped mapped;
    mapped.make(device);
    Linking linking;
    CUstream inGreen = green(device);
    uint32_t *plain, *out, **list;
    CHECK(cudaMalloc(&plain, words * 4));
    CHECK(cudaMemset(plain, 0, words * 4));
    CHECK(cudaMalloc(&out, words * 4));
    CHECK(cudaMalloc(&list, 8 * sizeof *list));
    CHECK(cudaMemset(list, 0, 8 * sizeof *list));
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    // A graph that allocates; another one, launched a round later, frees.
    cudaGraph_t makes, frees;
    cudaGraphNode_t made, node;
    cudaGraphExec_t making, freeing;
    cudaMemAllocNodeParams wanted = {};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location.type = cudaMemLocationTypeDevice;
    wanted.bytesize = 1 << 20;
    CHECK(cudaGraphCreate(&makes, 0));
    CHECK(cudaGraphAddMemAllocNode(&made, makes, nullptr, 0, &wanted));
    CHECK(cudaGraphCreate(&frees, 0));
    CHECK(cudaGraphAddMemFreeNode(&node, frees, nullptr, 0, wanted.dptr));
    CHECK(cudaGraphInstantiate(&making, makes, 0));
    CHECK(cudaGraphInstantiate(&freeing, frees, 0));
    uint32_t *const ofGraph = (uint32_t *)wanted.dptr;

    uint32_t want[words] = {}, ofGraphs[words], has[words];
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        for (unsigned k = 0; k < words; k++) want[k] = want[k] * 1664525u + i + k;
        linking.round(i);
        if (i % 5 == 4) mapped.move();
        step<<<1, words, 0, stream>>>((uint32_t *)mapped.at, i);
        step<<<1, words, 0, inGreen>>>(plain, i);
        grow<<<1, 1, 0, stream>>>(list, i);
        CHECK(cudaGetLastError());
        if (i % 2 == 0) {
            CHECK(cudaGraphLaunch(making, stream));
            CHECK(cudaMemsetAsync(ofGraph, i, words * 4, stream));
            memset(ofGraphs, i, sizeof ofGraphs);
        }
        step<<<1, words, 0, stream>>>(ofGraph, i);
        for (unsigned k = 0; k < words; k++) ofGraphs[k] = ofGraphs[k] * 1664525u + i + k;
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamSynchronize(inGreen));
        CHECKCU(cuMemcpyDtoH(has, mapped.at, sizeof has));
        REQUIRE(memcmp(has, want, sizeof want) == 0);
        CHECK(cudaMemcpy(has, plain, sizeof has, cudaMemcpyDeviceToHost));
        REQUIRE(memcmp(has, want, sizeof want) == 0);
        CHECK(cudaMemcpy(has, ofGraph, sizeof has, cudaMemcpyDeviceToHost));
        REQUIRE(memcmp(has, ofGraphs, sizeof has) == 0);
        if (i % 2) CHECK(cudaGraphLaunch(freeing, stream));

        const uint32_t pieces = i < 7 ? i + 1 : 8;
        look<<<1, 8, 0, stream>>>(list, pieces, out);
        CHECK(cudaMemcpyAsync(has, out, 8 * 4, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        for (uint32_t k = 0; k < pieces; k++) {
            REQUIRE(has[k] <= uint32_t(i) && uint32_t(i) - has[k] < 8 && has[k] % 8 == k);
        }
        if (linking.module) {
            uint32_t n = i, twice;
            CUdeviceptr at = (CUdeviceptr)out;
            void *params[] = {&at, &n};
            CHECKCU(
                cuLaunchKernel(linking.function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
            CHECKCU(cuMemcpyDtoH(&twice, at, sizeof twice));
            REQUIRE(twice == 2 * n);
        }
    }
    printf("%d rounds of what stays where it is\n", i);
    return 0;
}
