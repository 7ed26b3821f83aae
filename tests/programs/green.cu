// SPDX-License-Identifier: Apache-2.0
// Green contexts: the device's multiprocessors are split, kernels stay on those of their green
// context, and everything but streams is shared with the primary context.
#include "driver.h"
#include <cstring>
#include <set>
#include <vector>

// Headers before 12.5 and 12.9 lack these.
extern "C" CUresult CUDAAPI cuGreenCtxStreamCreate(CUstream *, CUgreenCtx, unsigned, int);
extern "C" CUresult CUDAAPI cuGreenCtxGetId(CUgreenCtx, unsigned long long *);

static const unsigned blocks = 512, threads = 128, count = blocks * threads;

// mark writes where each block runs, and out[i] = in[i] * 3 + add.
static __global__ void mark(unsigned *out, const unsigned *in, unsigned add, unsigned *where) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) asm volatile("mov.u32 %0, %%smid;" : "=r"(where[blockIdx.x]));
    out[i] = in[i] * 3 + add;
}

struct Part {
    CUgreenCtx green;
    CUcontext context;
    CUstream stream;
    unsigned multiprocessors;
    CUdeviceptr out, where;
};

static CUfunction function;

static void launch(CUstream stream, CUdeviceptr out, CUdeviceptr in, unsigned add,
                   CUdeviceptr where) {
    void *params[] = {&out, &in, &add, &where};
    CHECKCU(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, nullptr));
}

static std::vector<unsigned> get(CUdeviceptr p, size_t n) {
    std::vector<unsigned> v(n);
    CHECKCU(cuMemcpyDtoH(v.data(), p, n * sizeof(unsigned)));
    return v;
}

static std::set<unsigned> places(CUdeviceptr where) {
    std::vector<unsigned> v = get(where, blocks);
    return std::set<unsigned>(v.begin(), v.end());
}

static CUdeviceptr allocate(size_t n) {
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, n * sizeof(unsigned)));
    CHECKCU(cuMemsetD32(p, 0xabababab, n));
    CHECKCU(cuCtxSynchronize());
    return p;
}

// granularity is how few multiprocessors make a group: CUDA 13 says so, before that it is 8 for
// this generation.
static unsigned granularity(const CUdevResource &r) {
    unsigned partition;
    memcpy(&partition, (const char *)&r + 100, sizeof partition);
    return partition ? partition : 8;
}

static std::vector<CUdevResource> split(CUdevice device) {
    CUdevResource whole, same, remaining;
    CUcontext primary;
    memset(&whole, 0, sizeof whole);
    CHECKCU(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_SM));
    CHECKCU(cuCtxGetCurrent(&primary));
    CHECKCU(cuCtxGetDevResource(primary, &same, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(whole.type == CU_DEV_RESOURCE_TYPE_SM && same.type == CU_DEV_RESOURCE_TYPE_SM);
    REQUIRE(whole.sm.smCount > 0 && same.sm.smCount == whole.sm.smCount);

    unsigned unit = granularity(whole), least = whole.sm.smCount / 2 / unit * unit, n = 0;
    if (least < unit) least = unit;
    CHECKCU(cuDevSmResourceSplitByCount(nullptr, &n, &whole, nullptr, 0, least));
    REQUIRE(n >= 1 && n * least <= whole.sm.smCount);
    std::vector<CUdevResource> groups(n);
    unsigned made = n;
    CHECKCU(cuDevSmResourceSplitByCount(groups.data(), &made, &whole, &remaining, 0, least));
    REQUIRE(made == n);
    unsigned sum = remaining.type == CU_DEV_RESOURCE_TYPE_SM ? remaining.sm.smCount : 0;
    for (const CUdevResource &g : groups) {
        REQUIRE(g.type == CU_DEV_RESOURCE_TYPE_SM);
        REQUIRE(g.sm.smCount >= least && g.sm.smCount == groups[0].sm.smCount);
        sum += g.sm.smCount;
    }
    REQUIRE(sum <= whole.sm.smCount);
    puts("the multiprocessors are split");
    return groups;
}

static Part make(CUdevice device, CUdevResource *group) {
    Part p;
    CUdevResourceDesc desc;
    CUdevResource r;
    CUcontext primary, now, of;
    CUgreenCtx green;
    CHECKCU(cuCtxGetCurrent(&primary));
    CHECKCU(cuDevResourceGenerateDesc(&desc, group, 1));
    CHECKCU(cuGreenCtxCreate(&p.green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECKCU(cuCtxFromGreenCtx(&p.context, p.green));
    CHECKCU(cuCtxGetCurrent(&now));
    REQUIRE(now == primary && p.context != primary);
    CHECKCU(cuGreenCtxGetDevResource(p.green, &r, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(r.sm.smCount == group->sm.smCount);
    CHECKCU(cuCtxGetDevResource(p.context, &r, CU_DEV_RESOURCE_TYPE_SM));
    REQUIRE(r.sm.smCount == group->sm.smCount);
    p.multiprocessors = r.sm.smCount;
    CHECKCU(cuGreenCtxStreamCreate(&p.stream, p.green, CU_STREAM_NON_BLOCKING, 0));
    CHECKCU(cuStreamGetGreenCtx(p.stream, &green));
    CHECKCU(cuStreamGetCtx(p.stream, &of));
    REQUIRE(green == p.green && of == p.context);
    p.out = allocate(count);
    p.where = allocate(blocks);
    return p;
}

static void expect(CUdeviceptr p, const std::vector<unsigned> &in, unsigned add) {
    std::vector<unsigned> v = get(p, count);
    for (unsigned i = 0; i < count; i++) REQUIRE(v[i] == in[i] * 3 + add);
}

static void together(std::vector<Part> &parts, CUdeviceptr in,
                     const std::vector<unsigned> &values) {
    for (size_t i = 0; i < parts.size(); i++)
        launch(parts[i].stream, parts[i].out, in, unsigned(i), parts[i].where);
    for (Part &p : parts) CHECKCU(cuStreamSynchronize(p.stream));
    std::set<unsigned> all;
    size_t sum = 0;
    for (size_t i = 0; i < parts.size(); i++) {
        expect(parts[i].out, values, unsigned(i));
        std::set<unsigned> here = places(parts[i].where);
        REQUIRE(here.size() <= parts[i].multiprocessors);
        all.insert(here.begin(), here.end());
        sum += here.size();
    }
    REQUIRE(all.size() == sum);
    puts("each green context has multiprocessors of its own");
}

// inside works while a green context is current: its default stream, memory, a stream of the
// ordinary functions.
static CUdeviceptr inside(Part &p, CUdeviceptr in, const std::vector<unsigned> &values) {
    CUcontext now, of;
    CUdevice device;
    CUstream stream;
    CUgreenCtx green;
    CHECKCU(cuCtxPushCurrent(p.context));
    CHECKCU(cuCtxGetCurrent(&now));
    CHECKCU(cuCtxGetDevice(&device));
    REQUIRE(now == p.context && device == 0);
    CHECKCU(cuStreamGetGreenCtx(nullptr, &green));
    REQUIRE(green == p.green);
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuStreamGetGreenCtx(stream, &green));
    CHECKCU(cuStreamGetCtx(stream, &of));
    REQUIRE(green == p.green && of == p.context);
    CUdeviceptr mine = allocate(count);
    launch(nullptr, mine, in, 100, p.where);
    CHECKCU(cuCtxSynchronize());
    expect(mine, values, 100);
    launch(stream, mine, in, 200, p.where);
    CHECKCU(cuStreamSynchronize(stream));
    expect(mine, values, 200);
    REQUIRE(places(p.where).size() <= p.multiprocessors);
    CHECKCU(cuStreamDestroy(stream));
    CHECKCU(cuCtxPopCurrent(&now));
    REQUIRE(now == p.context);
    CHECKCU(cuStreamGetGreenCtx(nullptr, &green));
    REQUIRE(green == nullptr);
    puts("a green context can be current");
    return mine;
}

// ordered has the last green context wait for what the first one computes.
static void ordered(Part &first, Part &last, CUdeviceptr in, const std::vector<unsigned> &values) {
    CUevent event;
    CUdeviceptr middle = allocate(count);
    CHECKCU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 20; i++) launch(first.stream, middle, in, i, first.where);
    CHECKCU(cuGreenCtxRecordEvent(first.green, event));
    CHECKCU(cuGreenCtxWaitEvent(last.green, event));
    launch(last.stream, last.out, middle, 7, last.where);
    CHECKCU(cuStreamSynchronize(last.stream));
    CHECKCU(cuEventQuery(event));
    std::vector<unsigned> v = get(last.out, count);
    for (unsigned i = 0; i < count; i++) REQUIRE(v[i] == (values[i] * 3 + 19) * 3 + 7);
    CHECKCU(cuEventDestroy(event));
    CHECKCU(cuMemFree(middle));
    puts("green contexts wait for each other");
}

int main() {
    CUdevice device = openDevice();
    Random random{7};
    std::vector<unsigned> values(count);
    for (unsigned &v : values) v = random.next();
    CHECK(cudaGetFuncBySymbol(&function, (const void *)mark));
    CUdeviceptr in = allocate(count);
    CHECKCU(cuMemcpyHtoD(in, values.data(), count * sizeof(unsigned)));

    std::vector<CUdevResource> groups = split(device);
    std::vector<Part> parts;
    std::set<unsigned long long> ids;
    for (CUdevResource &g : groups) {
        unsigned long long id;
        parts.push_back(make(device, &g));
        CHECKCU(cuGreenCtxGetId(parts.back().green, &id));
        ids.insert(id);
    }
    REQUIRE(ids.size() == parts.size());
    together(parts, in, values);
    CUdeviceptr kept = inside(parts[0], in, values);
    ordered(parts[0], parts.back(), in, values);

    CUstream stream;
    CUdevResource whole;
    REPORTCU(cuDeviceGetDevResource(device, &whole, CU_DEV_RESOURCE_TYPE_INVALID));
    REPORTCU(cuGreenCtxStreamCreate(&stream, parts[0].green, 0, 0));

    for (Part &p : parts) {
        CHECKCU(cuStreamDestroy(p.stream));
        CHECKCU(cuGreenCtxDestroy(p.green));
        CHECKCU(cuMemFree(p.out));
        CHECKCU(cuMemFree(p.where));
    }
    expect(kept, values, 200);
    CHECKCU(cuMemFree(kept));
    CHECKCU(cuMemFree(in));
    puts("what a green context made outlives it");
    return 0;
}
