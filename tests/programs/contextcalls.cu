// SPDX-License-Identifier: Apache-2.0
// What can be asked of, and said to, devices, contexts, streams, events and pools: functions that
// other programs don't call.
#include "versions.h"
#include <cudaProfiler.h>
#include <string>
#include <unistd.h>
#include <vector>

static int attribute(CUdevice_attribute a, CUdevice device) {
    int value = -1;
    CHECKCU(cuDeviceGetAttribute(&value, a, device));
    return value;
}

static void devices(CUdevice device) {
    int major, minor, value;
    CUdevprop prop;
    CUuuid a, b;
    char luid[8];
    unsigned mask;

    CHECKCU(cuDeviceComputeCapability(&major, &minor, device));
    REQUIRE(major == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    REQUIRE(minor == attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECKCU(cuDeviceGetProperties(&prop, device));
    REQUIRE(prop.maxThreadsPerBlock ==
            attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device));
    REQUIRE(prop.maxGridSize[1] == attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, device));
    REQUIRE(prop.SIMDWidth == 32 &&
            prop.regsPerBlock == attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, device));
    CHECKCU(get<CUresult(CUuuid *, CUdevice)>("cuDeviceGetUuid", 9020)(&a, device));
    CHECKCU(get<CUresult(CUuuid *, CUdevice)>("cuDeviceGetUuid", 11040)(&b, device));
    REQUIRE(!memcmp(&a, &b, sizeof a));
    REPORTCU(cuDeviceGetLuid(luid, &mask, device));
    CHECKCU(cuDeviceGetExecAffinitySupport(&value, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device));
    REPORTCU(cuDeviceCanAccessPeer(&value, device, 99));
    REPORTCU(
        cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device, device));
    auto atomics = get<CUresult(unsigned *, const int *, unsigned, CUdevice, CUdevice)>(
        "cuDeviceGetP2PAtomicCapabilities", 13000);
    int operation = 0;
    REQUIRE(atomics(&mask, &operation, 1, device, 99) != CUDA_SUCCESS);
    puts("devices");
}

static void contexts(CUdevice device) {
    CUcontext primary, context, now;
    unsigned flags, version;
    unsigned long long one, two;
    int active;
    CHECKCU(cuCtxGetCurrent(&primary));
    CHECKCU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    REQUIRE(active == 1);
    auto create3 = get<CUresult(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice)>(
        "cuCtxCreate", 11040);
    auto create4 = get<CUresult(CUcontext *, void *, unsigned, CUdevice)>("cuCtxCreate", 12050);
    CHECKCU(create3(&context, nullptr, 0, CU_CTX_SCHED_YIELD, device));
    CHECKCU(cuCtxGetFlags(&flags));
    REQUIRE((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_YIELD);
    CHECKCU(cuCtxGetId(primary, &one));
    CHECKCU(cuCtxGetId(context, &two));
    REQUIRE(one != two);
    CHECKCU(cuCtxGetApiVersion(context, &version));
    CHECKCU(get<CUresult(CUcontext)>("cuCtxSynchronize", 13000)(context));
    CUdevice of = -1;
    CHECKCU(get<CUresult(CUdevice *, CUcontext)>("cuCtxGetDevice", 13000)(&of, primary));
    REQUIRE(of == device);
    CHECKCU(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
    CHECKCU(cuCtxGetFlags(&flags));
    REQUIRE((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
    CHECKCU(cuCtxDestroy(context));
    // A dump would only be written if a kernel failed, which none does here.
    CUcontext dumps;
    CHECKCU(get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020)(
        &dumps, 0x20 | CU_CTX_SCHED_YIELD, device));
    CHECKCU(cuCtxGetFlags(&flags));
    REQUIRE(flags == (0x20 | CU_CTX_SCHED_YIELD));
    CHECKCU(cuCtxDestroy(dumps));
    REQUIRE(get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020)(
                &dumps, 3, device) == CUDA_ERROR_INVALID_VALUE);
    CHECKCU(create4(&context, nullptr, 0, device));
    CHECKCU(cuCtxDestroy(context));
    CHECKCU(cuCtxGetCurrent(&now));
    REQUIRE(now == primary);

    CUfunc_cache cache;
    CUsharedconfig banks;
    CUexecAffinityParam affinity;
    CHECKCU(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    CHECKCU(cuCtxGetCacheConfig(&cache));
    REQUIRE(cache == CU_FUNC_CACHE_PREFER_L1);
    CHECKCU(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    CHECKCU(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    CHECKCU(cuCtxGetSharedMemConfig(&banks));
    CHECKCU(cuCtxResetPersistingL2Cache());
    REQUIRE(cuCtxGetExecAffinity(&affinity, (CUexecAffinityType)99) != CUDA_SUCCESS);
    (void)cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
    REQUIRE(cuCtxEnablePeerAccess(primary, 0) != CUDA_SUCCESS);
    REQUIRE(cuCtxDisablePeerAccess(primary) != CUDA_SUCCESS);
    (void)cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    CHECKCU(cuProfilerStart());
    CHECKCU(cuProfilerStop());
    puts("contexts");
}

// A primary context that is flagged, retained, released and reset; nothing of it is in use then.
static void primary(CUdevice device) {
    CUcontext context;
    unsigned flags;
    int active;
    REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != nullptr);
    CHECKCU(cuDevicePrimaryCtxRelease(device));
    CHECKCU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    REQUIRE(active == 0);
    CHECKCU(get<CUresult(CUdevice, unsigned)>("cuDevicePrimaryCtxSetFlags",
                                              7000)(device, CU_CTX_SCHED_SPIN));
    CHECKCU(cuDevicePrimaryCtxGetState(device, &flags, &active));
    REQUIRE((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_SPIN);
    CHECKCU(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_AUTO));
    CHECKCU(cuDevicePrimaryCtxRetain(&context, device));
    CHECKCU(cuCtxSetCurrent(context));
    CHECKCU(cuDevicePrimaryCtxReset(device));
    CHECKCU(cuDevicePrimaryCtxRetain(&context, device));
    CHECKCU(cuCtxSetCurrent(context));
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, 1000));
    CHECKCU(cuMemFree(p));
    puts("a primary context that comes and goes");
}

static void streams(CUdevice device) {
    CUstream a, b;
    CUcontext primary, context = nullptr;
    CUdevice of = -1;
    unsigned flags;
    unsigned long long one, two;
    int priority, least, greatest;
    void *green = &green;
    CHECKCU(cuCtxGetCurrent(&primary));
    CHECKCU(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECKCU(cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, greatest));
    CHECKCU(cuStreamCreate(&b, CU_STREAM_DEFAULT));
    CHECKCU(cuStreamGetFlags(a, &flags));
    REQUIRE(flags == CU_STREAM_NON_BLOCKING);
    CHECKCU(cuStreamGetPriority(a, &priority));
    REQUIRE(priority == greatest);
    CHECKCU(cuStreamGetId(a, &one));
    CHECKCU(cuStreamGetId(b, &two));
    REQUIRE(one != two);
    CHECKCU(get<CUresult(CUstream, CUdevice *)>("cuStreamGetDevice", 12080)(a, &of));
    REQUIRE(of == device);
    CHECKCU(get<CUresult(CUstream, CUcontext *, void **)>("cuStreamGetCtx", 12050)(a, &context,
                                                                                   &green));
    REQUIRE(context == primary && green == nullptr);
    CUstreamAttrValue value, got;
    memset(&value, 0, sizeof value);
    value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    CHECKCU(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECKCU(cuStreamGetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    REQUIRE(got.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);
    CHECKCU(cuStreamCopyAttributes(b, a));
    CHECKCU(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    REQUIRE(got.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);

    CUevent begin, end;
    float ms = -1;
    CHECKCU(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CHECKCU(cuEventCreate(&end, CU_EVENT_DEFAULT));
    CHECKCU(get<CUresult(CUcontext, CUevent)>("cuCtxRecordEvent", 12050)(primary, begin));
    CHECKCU(get<CUresult(CUcontext, CUevent)>("cuCtxWaitEvent", 12050)(primary, begin));
    CHECKCU(cuEventRecord(begin, a));
    CHECKCU(cuEventRecord(end, a));
    CHECKCU(cuEventSynchronize(end));
    CHECKCU(get<CUresult(float *, CUevent, CUevent)>("cuEventElapsedTime", 12080)(&ms, begin, end));
    REQUIRE(ms >= 0);
    CHECKCU(cuEventDestroy(begin));
    CHECKCU(cuEventDestroy(end));
    CHECKCU(cuStreamDestroy(a));
    CHECKCU(cuStreamDestroy(b));
    puts("streams");
}

static void pools(CUdevice device) {
    CUmemoryPool pool, standard, current;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = location;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    CHECKCU(cuMemPoolSetAccess(pool, &access, 1));
    CHECKCU(cuMemPoolGetAccess(&flags, pool, &location));
    REQUIRE(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    typedef CUresult Get(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
    CHECKCU(get<Get>("cuMemGetDefaultMemPool", 13000)(&standard, &location,
                                                      CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECKCU(cuDeviceGetDefaultMemPool(&current, device));
    REQUIRE(current == standard);
    CHECKCU(get<CUresult(CUmemLocation *, CUmemAllocationType, CUmemoryPool)>(
        "cuMemSetMemPool", 13000)(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    CHECKCU(get<Get>("cuMemGetMemPool", 13000)(&current, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    REQUIRE(current == pool);
    CHECKCU(cuDeviceSetMemPool(device, standard));
    CHECKCU(cuMemPoolDestroy(pool));
    cuuint64_t bytes = 1;
    CHECKCU(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes));
    REQUIRE(bytes == 0);
    CHECKCU(cuDeviceSetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &bytes));
    puts("pools");
}

static void hear(void *, int, char *, size_t) {}

static void library() {
    void *f = nullptr;
    auto old = get<CUresult(const char *, void **, int, cuuint64_t)>("cuGetProcAddress", 11030);
    CHECKCU(old("cuInit", &f, 12000, 0));
    REQUIRE(f != nullptr);
    f = &f;
    REPORTCU(old("cuNothing", &f, 12000, 0));
    void *handle = nullptr;
    CHECKCU(get<CUresult(void *, void *, void **)>("cuLogsRegisterCallback",
                                                   12090)((void *)hear, nullptr, &handle));
    CHECKCU(get<CUresult(void *)>("cuLogsUnregisterCallback", 12090)(handle));
    char file[] = "/tmp/logs.XXXXXX";
    int fd = mkstemp(file);
    REQUIRE(fd >= 0);
    close(fd);
    CHECKCU(get<CUresult(unsigned *, const char *, unsigned)>("cuLogsDumpToFile", 12090)(nullptr,
                                                                                         file, 0));
    unlink(file);
    puts("the library");
}

int main() {
    CUdevice device = openDevice();
    devices(device);
    contexts(device);
    streams(device);
    pools(device);
    primary(device);
    library();
    return 0;
}
