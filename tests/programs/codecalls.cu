// SPDX-License-Identifier: Apache-2.0
// What can be asked of modules, libraries, kernels and functions, launches of each kind, and copies
// of each kind: functions that other programs don't call.
#include "versions.h"
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

static const char ptx[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 number = 7;
.visible .entry fill(.param .u64 to, .param .u32 value)
{
    .reg .b64 %p<3>;
    .reg .b32 %r<6>;
    ld.param.u64 %p0, [to];
    ld.param.u32 %r0, [value];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    add.u32 %r0, %r0, %r4;
    mul.wide.u32 %p1, %r4, 4;
    add.u64 %p2, %p0, %p1;
    st.global.u32 [%p2], %r0;
    ret;
}
.visible .entry nothing() { ret; }
)";

static const unsigned count = 256;
static CUdeviceptr memory;
static CUstream stream;

// filled says whether fill() ran with that value, and clears what it wrote.
static bool filled(unsigned value) {
    std::vector<unsigned> v(count);
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(v.data(), memory, count * 4));
    CHECKCU(cuMemsetD32(memory, 0, count));
    CHECKCU(cuCtxSynchronize());
    for (unsigned i = 0; i < count; i++)
        if (v[i] != value + i) return false;
    return true;
}

static void modules() {
    CUmodule module, again;
    CUfunction f, all[4];
    CUfunctionLoadingState state;
    unsigned n = 0;
    const char *called;
    size_t offset, size;
    CHECKCU(cuModuleLoadFatBinary(&module, ptx));
    CHECKCU(cuModuleGetFunction(&f, module, "fill"));
    CHECKCU(cuFuncGetModule(&again, f));
    REQUIRE(again == module);
    CHECKCU(cuFuncGetName(&called, f));
    REQUIRE(!strcmp(called, "fill"));
    CHECKCU(cuFuncGetParamInfo(f, 1, &offset, &size));
    REQUIRE(offset == 8 && size == 4);
    REQUIRE(cuFuncGetParamInfo(f, 2, &offset, &size) == CUDA_ERROR_INVALID_VALUE);
    CHECKCU(cuFuncLoad(f));
    CHECKCU(cuFuncIsLoaded(&state, f));
    REQUIRE(state == CU_FUNCTION_LOADING_STATE_LOADED);
    CHECKCU(cuFuncSetSharedMemConfig(f, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE));
    CHECKCU(cuModuleGetFunctionCount(&n, module));
    REQUIRE(n == 2);
    CHECKCU(cuModuleEnumerateFunctions(all, 2, module));
    std::set<std::string> names;
    for (unsigned i = 0; i < 2; i++) {
        CHECKCU(cuFuncGetName(&called, all[i]));
        names.insert(called);
    }
    REQUIRE(names == (std::set<std::string>{"fill", "nothing"}));

    unsigned value = 100;
    void *args[] = {&memory, &value};
    CHECKCU(cuLaunchCooperativeKernel(f, 2, 1, 1, count / 2, 1, 1, 0, stream, args));
    REQUIRE(filled(100));
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    config.gridDimX = 4, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = count / 4, config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    value = 200;
    CHECKCU(cuLaunchKernelEx(&config, f, args, nullptr));
    REQUIRE(filled(200));

    int blocks = 0, with = 0, least = 0, best = 0;
    CHECKCU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 128, 0));
    CHECKCU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&with, f, 128, 0,
                                                                 CU_OCCUPANCY_DEFAULT));
    REQUIRE(blocks > 0 && blocks == with);
    CHECKCU(cuOccupancyMaxPotentialBlockSize(&least, &best, f, nullptr, 0, 0));
    REQUIRE(least > 0 && best > 0 && best % 32 == 0);
    CHECKCU(cuOccupancyMaxPotentialBlockSizeWithFlags(
        &least, &best, f, [](int threads) -> size_t { return threads * 4; }, 0, 256,
        CU_OCCUPANCY_DEFAULT));
    REQUIRE(best > 0 && best <= 256);
    CHECKCU(cuOccupancyAvailableDynamicSMemPerBlock(&size, f, 1, 128));
    REQUIRE(size > 0);
    CHECKCU(cuModuleUnload(module));
    puts("modules and launches");
}

static void libraries(CUdevice device) {
    char file[] = "/tmp/code.XXXXXX";
    int fd = mkstemp(file), value = 0;
    REQUIRE(fd >= 0 && write(fd, ptx, sizeof ptx - 1) == sizeof ptx - 1);
    close(fd);
    CUlibrary library, of;
    CUkernel kernel, all[2];
    CUdeviceptr global;
    const char *called;
    size_t offset, size;
    unsigned n = 0;
    void *unified = nullptr;
    CHECKCU(cuLibraryLoadFromFile(&library, file, nullptr, nullptr, 0, nullptr, nullptr, 0));
    unlink(file);
    CHECKCU(cuLibraryGetKernelCount(&n, library));
    REQUIRE(n == 2);
    CHECKCU(cuLibraryEnumerateKernels(all, 2, library));
    CHECKCU(cuLibraryGetKernel(&kernel, library, "fill"));
    REQUIRE(kernel == all[0] || kernel == all[1]);
    CHECKCU(cuKernelGetName(&called, kernel));
    REQUIRE(!strcmp(called, "fill"));
    CHECKCU(get<CUresult(CUlibrary *, CUkernel)>("cuKernelGetLibrary", 12050)(&of, kernel));
    REQUIRE(of == library);
    CHECKCU(cuKernelGetParamInfo(kernel, 0, &offset, &size));
    REQUIRE(offset == 0 && size == 8);
    CHECKCU(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device));
    REQUIRE(value > 0);
    CHECKCU(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel,
                                 device));
    CHECKCU(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel,
                                 device));
    REQUIRE(value == 1024);
    CHECKCU(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_SHARED, device));
    CHECKCU(cuLibraryGetGlobal(&global, &size, library, "number"));
    CHECKCU(cuMemcpyDtoH(&value, global, 4));
    REQUIRE(size == 4 && value == 7);
    REQUIRE(cuLibraryGetUnifiedFunction(&unified, library, "fill") != CUDA_SUCCESS);
    unsigned from = 300;
    void *args[] = {&memory, &from};
    CHECKCU(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, count, 1, 1, 0, stream, args, nullptr));
    REQUIRE(filled(300));
    CHECKCU(cuLibraryUnload(library));
    puts("libraries");
}

// What CUDA 13 calls CUmemcpyAttributes.
struct Attributes {
    int order;
    struct { int type, id; } src, dst;
    unsigned flags;
};

static void copies(CUdevice device) {
    const size_t width = 30, height = 20, pitch = 64, bytes = pitch * height;
    CUcontext context;
    CUdeviceptr a, b;
    Random random{5};
    std::vector<unsigned char> v(bytes), got(bytes);
    for (auto &x : v) x = (unsigned char)random.next();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuMemAlloc(&a, bytes));
    CHECKCU(cuMemAlloc(&b, bytes));
    auto check = [&](const char *what) {
        CHECKCU(cuCtxSynchronize());
        CHECKCU(cuMemcpyDtoH(got.data(), b, bytes));
        if (got != v) printf("%s: wrong\n", what);
        CHECKCU(cuMemsetD8(b, 0, bytes));
        CHECKCU(cuCtxSynchronize());
    };
    CHECKCU(cuMemcpyHtoD(a, v.data(), bytes));
    CHECKCU(cuMemsetD8(b, 0, bytes));
    CHECKCU(cuMemcpyPeer(b, context, a, context, bytes));
    check("cuMemcpyPeer");
    CHECKCU(cuMemcpyPeerAsync(b, context, a, context, bytes, stream));
    check("cuMemcpyPeerAsync");
    CUDA_MEMCPY3D_PEER peer;
    memset(&peer, 0, sizeof peer);
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    peer.srcDevice = a, peer.dstDevice = b;
    peer.srcContext = peer.dstContext = context;
    peer.srcPitch = peer.dstPitch = pitch;
    peer.WidthInBytes = pitch, peer.Height = height, peer.Depth = 1;
    CHECKCU(cuMemcpy3DPeer(&peer));
    check("cuMemcpy3DPeer");
    CHECKCU(cuMemcpy3DPeerAsync(&peer, stream));
    check("cuMemcpy3DPeerAsync");
    CUDA_MEMCPY2D box;
    memset(&box, 0, sizeof box);
    box.srcMemoryType = CU_MEMORYTYPE_HOST, box.srcHost = v.data(), box.srcPitch = pitch;
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE, box.dstDevice = b, box.dstPitch = pitch;
    box.WidthInBytes = pitch, box.Height = height;
    CHECKCU(cuMemcpy2D(&box));
    check("cuMemcpy2D");
    CUdeviceptr to[] = {b, b + 100}, from[] = {a, a + 100};
    size_t sizes[] = {100, bytes - 100}, first = 0;
    Attributes attributes = {1, {0, 0}, {0, 0}, 0};
    CHECKCU(get<CUresult(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, Attributes *, size_t *,
                         size_t, CUstream)>("cuMemcpyBatchAsync", 13000)(
        to, from, sizes, 2, &attributes, &first, 1, stream));
    check("cuMemcpyBatchAsync");

    CHECKCU(cuMemsetD2D16Async(b, pitch, 0x1234, width / 2, height, stream));
    CHECKCU(cuMemsetD2D32Async(b + 32, pitch, 0x89abcdef, 8, height, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(got.data(), b, bytes));
    for (size_t i = 0; i < bytes; i++) {
        size_t x = i % pitch;
        unsigned char wanted = x < width ? (x % 2 ? 0x12 : 0x34)
                               : x < 32  ? 0
                                         : (unsigned char)(0x89abcdefu >> 8 * (x % 4));
        REQUIRE(got[i] == wanted);
    }
    unsigned sync = 1;
    CHECKCU(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    void *host;
    CHECKCU(cuMemAllocHost(&host, 1000));
    CHECKCU(cuMemFreeHost(host));
    CHECKCU(cuMemFree(a));
    CHECKCU(cuMemFree(b));
    puts("copies");
    (void)device;
}

static void managed(CUdevice device) {
    CUdeviceptr p;
    size_t bytes = 1 << 20, first = 0;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    int mostly = -1, last = -1;
    void *data[] = {&mostly, &last};
    size_t sizes[] = {sizeof mostly, sizeof last};
    CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                          CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    CHECKCU(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
    CHECKCU(get<CUresult(CUdeviceptr, size_t, CUmem_advise, CUmemLocation)>("cuMemAdvise", 12020)(
        p, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, location));
    CHECKCU(get<CUresult(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)>(
        "cuMemPrefetchAsync", 12020)(p, bytes, location, 0, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemRangeGetAttributes(data, sizes, attributes, 2, p, bytes));
    REQUIRE(mostly == 1 && last == device);
    typedef CUresult Batch(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
                           unsigned long long, CUstream);
    CHECKCU(get<Batch>("cuMemPrefetchBatchAsync", 13000)(&p, &bytes, 1, &location, &first, 1, 0,
                                                         stream));
    CHECKCU(get<Batch>("cuMemDiscardAndPrefetchBatchAsync", 13000)(&p, &bytes, 1, &location, &first,
                                                                   1, 0, stream));
    CHECKCU(cuStreamSynchronize(stream));
    memset((void *)p, 3, bytes);
    REQUIRE(allBytes((void *)p, 3, bytes));
    CHECKCU(cuMemFree(p));
    puts("managed memory");
}

int main() {
    CUdevice device = openDevice();
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemAlloc(&memory, count * 4));
    CHECKCU(cuMemsetD32(memory, 0, count));
    CHECKCU(cuCtxSynchronize());
    modules();
    libraries(device);
    copies(device);
    managed(device);
    CHECKCU(cuMemFree(memory));
    CHECKCU(cuStreamDestroy(stream));
    return 0;
}
