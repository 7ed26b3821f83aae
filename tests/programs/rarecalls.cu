// SPDX-License-Identifier: Apache-2.0
// Functions that few programs call: launches as before CUDA 4, attached contexts, batches of copies
// and discards, questions about atomics, the library's messages. Headers lack some of them, so they
// are asked for by name.
#include "versions.h"
#include <cstring>
#include <vector>

static const unsigned count = 4096;

static __global__ void combine(unsigned *out, const unsigned *in, float factor, unsigned add) {
    extern __shared__ unsigned shared[];
    unsigned block = blockIdx.y * gridDim.x + blockIdx.x, i = block * blockDim.x + threadIdx.x;
    shared[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = unsigned(float(shared[blockDim.x - 1 - threadIdx.x] & 0xffff) * factor) + add;
}

static void launches() {
    auto shape = get<CUresult(CUfunction, int, int, int)>("cuFuncSetBlockShape", 2000);
    auto shared = get<CUresult(CUfunction, unsigned)>("cuFuncSetSharedSize", 2000);
    auto size = get<CUresult(CUfunction, unsigned)>("cuParamSetSize", 2000);
    auto seti = get<CUresult(CUfunction, int, unsigned)>("cuParamSeti", 2000);
    auto setf = get<CUresult(CUfunction, int, float)>("cuParamSetf", 2000);
    auto setv = get<CUresult(CUfunction, int, void *, unsigned)>("cuParamSetv", 2000);
    auto one = get<CUresult(CUfunction)>("cuLaunch", 2000);
    auto grid = get<CUresult(CUfunction, int, int)>("cuLaunchGrid", 2000);
    auto async = get<CUresult(CUfunction, int, int, CUstream)>("cuLaunchGridAsync", 2000);

    CUfunction f;
    CUstream stream;
    CUdeviceptr in, out;
    Random random{11};
    std::vector<unsigned> v(count), got(count + 1);
    for (unsigned &x : v) x = random.next();
    CHECK(cudaGetFuncBySymbol(&f, (const void *)combine));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemAlloc(&in, count * 4));
    CHECKCU(cuMemAlloc(&out, count * 4 + 4));
    CHECKCU(cuMemcpyHtoD(in, v.data(), count * 4));

    const unsigned threads = 128;
    CHECKCU(shape(f, threads, 1, 1));
    CHECKCU(shared(f, threads * 4));
    CHECKCU(setv(f, 0, &out, 8));
    CHECKCU(setv(f, 8, &in, 8));
    CHECKCU(setf(f, 16, 0.5f));
    CHECKCU(size(f, 24));
    const struct {
        int width, height;
        bool async;
    } tests[] = {{1, 1, false}, {4, 8, false}, {8, 4, true}, {32, 1, true}};
    for (unsigned t = 0; t < 4; t++) {
        CHECKCU(cuMemsetD32(out, 0xcdcdcdcd, count + 1));
        CHECKCU(cuCtxSynchronize());
        CHECKCU(seti(f, 20, 1000 + t));
        if (t == 0) CHECKCU(one(f));
        else if (tests[t].async) CHECKCU(async(f, tests[t].width, tests[t].height, stream));
        else CHECKCU(grid(f, tests[t].width, tests[t].height));
        CHECKCU(cuCtxSynchronize());
        CHECKCU(cuMemcpyDtoH(got.data(), out, count * 4 + 4));
        unsigned written = tests[t].width * tests[t].height * threads;
        for (unsigned i = 0; i <= count; i++) {
            unsigned block = i / threads * threads;
            REQUIRE(got[i] ==
                    (i < written
                         ? unsigned(float(v[block + threads - 1 - (i - block)] & 0xffff) * 0.5f) +
                               1000 + t
                         : 0xcdcdcdcd));
        }
    }
    CHECKCU(cuMemFree(in));
    CHECKCU(cuMemFree(out));
    CHECKCU(cuStreamDestroy(stream));
    puts("launches with parameters one by one");
}

static void contexts(CUdevice device) {
    auto create = get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020);
    auto attach = get<CUresult(CUcontext *, unsigned)>("cuCtxAttach", 2000);
    auto detach = get<CUresult(CUcontext)>("cuCtxDetach", 2000);
    CUcontext context, same, now;
    CUdeviceptr p;
    CHECKCU(create(&context, 0, device));
    CHECKCU(attach(&same, 0));
    REQUIRE(same == context);
    CHECKCU(detach(context));
    CHECKCU(cuMemAlloc(&p, 100)); // it is still there
    CHECKCU(detach(context));
    CHECKCU(cuCtxGetCurrent(&now));
    REQUIRE(now != context);
    puts("contexts are counted");
}

// What CUDA 13 calls CUDA_MEMCPY3D_BATCH_OP, for pointers.
struct Operand {
    int type;
    CUdeviceptr p;
    size_t row, layer;
    int location, id;
};
struct Operation {
    Operand src, dst;
    size_t width, height, depth;
    int order;
    unsigned flags;
};

static void batches() {
    auto copies = get<CUresult(size_t, Operation *, unsigned long long, CUstream)>(
        "cuMemcpy3DBatchAsync", 13000);
    auto discard = get<CUresult(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream)>(
        "cuMemDiscardBatchAsync", 13000);
    const size_t width = 37, height = 5, depth = 3, row = 64, layer = 7,
                 bytes = row * layer * depth;
    CUstream stream;
    CUdeviceptr a, b, managed;
    Random random{12};
    std::vector<unsigned char> v(bytes), got(bytes);
    for (unsigned char &x : v) x = (unsigned char)random.next();
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemAlloc(&a, bytes));
    CHECKCU(cuMemAlloc(&b, bytes));
    CHECKCU(cuMemcpyHtoD(a, v.data(), bytes));
    CHECKCU(cuMemsetD8(b, 0x77, bytes));
    CHECKCU(cuCtxSynchronize());
    Operation op[2] = {};
    op[0].src = {1, a, row, layer, 0, 0};
    op[0].dst = {1, b, row, layer, 0, 0};
    op[0].width = width, op[0].height = height, op[0].depth = 1, op[0].order = 1;
    op[1] = op[0];
    op[1].src.p += row * layer;
    op[1].dst.p += row * layer;
    op[1].depth = depth - 1;
    CHECKCU(copies(2, op, 0, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(got.data(), b, bytes));
    for (size_t i = 0; i < bytes; i++) {
        bool inside = i % row < width && i / row % layer < height;
        REQUIRE(got[i] == (inside ? v[i] : 0x77));
    }
    puts("a batch of boxes is copied");

    size_t size = 1 << 16;
    CHECKCU(cuMemAllocManaged(&managed, size, CU_MEM_ATTACH_GLOBAL));
    CHECKCU(cuMemsetD8(managed, 1, size));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(discard(&managed, &size, 1, 0, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemsetD8(managed, 5, size));
    CHECKCU(cuCtxSynchronize());
    for (size_t i = 0; i < size; i++) REQUIRE(((unsigned char *)managed)[i] == 5);
    CHECKCU(cuMemFree(managed));
    CHECKCU(cuMemFree(a));
    CHECKCU(cuMemFree(b));
    CHECKCU(cuStreamDestroy(stream));
    puts("discarded memory can be written again");
}

static void questions(CUdevice device) {
    auto host = get<CUresult(unsigned *, const int *, unsigned, CUdevice)>(
        "cuDeviceGetHostAtomicCapabilities", 13000);
    auto current = get<CUresult(unsigned *, unsigned)>("cuLogsCurrent", 12090);
    auto dump = get<CUresult(unsigned *, char *, size_t *, unsigned)>("cuLogsDumpToMemory", 12090);
    unsigned capability = ~0u, iterator;
    int operation = 0;
    CHECKCU(host(&capability, &operation, 1, device));
    REQUIRE(capability != ~0u);
    char text[1024];
    size_t size = sizeof text;
    memset(text, 'x', sizeof text);
    CHECKCU(current(&iterator, 0));
    CHECKCU(dump(&iterator, text, &size, 0));
    REQUIRE(size == 0);
    puts("there are answers");
    REPORTCU(current(&iterator, 1));
}

int main() {
    CUdevice device = openDevice();
    launches();
    contexts(device);
    batches();
    questions(device);
    return 0;
}
