// SPDX-License-Identifier: Apache-2.0
// Tries every flag, attribute and kind that functions take, those that exist and others, and prints
// each result.
#include "versions.h"
#include <functional>
#include <string>
#include <vector>

static __global__ void kernel(unsigned *out, unsigned value) { *out = value; }

static CUdevice device;
static CUcontext context;
static CUfunction function;
static CUdeviceptr memory;
static CUstream stream;

// sweep tries numbers, and prints the results: equal ones in a row are printed once.
static void sweep(const char *what, const std::vector<unsigned long long> &numbers,
                  const std::function<CUresult(unsigned long long)> &one) {
    CUresult last = CUDA_SUCCESS;
    unsigned long long first = 0, before = 0;
    bool any = false;
    printf("%s:", what);
    auto end = [&] {
        before == first ? printf(" %llx=%d", first, int(last))
                        : printf(" %llx-%llx=%d", first, before, int(last));
    };
    for (unsigned long long n : numbers) {
        CUresult r = one(n);
        if (any && r != last) end();
        if (!any || r != last) first = n, last = r;
        before = n, any = true;
    }
    end();
    printf("\n");
    fflush(stdout);
}

static std::vector<unsigned long long> upTo(int last) {
    std::vector<unsigned long long> v;
    for (int i = 0; i <= last; i++) v.push_back((unsigned long long)i);
    v.push_back(1000), v.push_back(0x7fffffff), v.push_back(0xffffffff);
    return v;
}

// Each bit of 32, then a few of 64 if there are so many.
static std::vector<unsigned long long> bits(int count = 32) {
    std::vector<unsigned long long> v = {0};
    for (int i = 0; i < count; i++) v.push_back(1ull << i);
    return v;
}

static void contexts() {
    CUcontext c;
    auto create = get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020);
    sweep(
        "cuCtxCreate",
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x20, 0x40, 0x60, 0x80, 0x100, 0x200, 0x400, 0x80000000},
        [&](unsigned long long f) {
            CUresult r = create(&c, (unsigned)f, device);
            if (r) return r;
            unsigned told = 0;
            CHECKCU(cuCtxGetFlags(&told));
            printf(" (%llx: %x)", f, told);
            CHECKCU(cuCtxDestroy(c));
            return r;
        });
    CHECKCU(cuCtxSetCurrent(context));
    sweep("cuCtxSetFlags", bits(), [](unsigned long long f) {
        unsigned told = 0;
        CUresult r = cuCtxSetFlags((unsigned)f);
        if (!r) CHECKCU(cuCtxGetFlags(&told)), printf(" (%llx: %x)", f, told);
        return r;
    });
    CHECKCU(cuCtxSetFlags(0));
    sweep("cuDevicePrimaryCtxSetFlags",
          {0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x80000000},
          [](unsigned long long f) {
              unsigned told = 0;
              int active = 0;
              CUresult r = cuDevicePrimaryCtxSetFlags(device, (unsigned)f);
              if (!r)
                  CHECKCU(cuDevicePrimaryCtxGetState(device, &told, &active)),
                      printf(" (%llx: %x)", f, told);
              return r;
          });
    CHECKCU(cuDevicePrimaryCtxSetFlags(device, 0));
    sweep("cuCtxGetLimit", upTo(12), [](unsigned long long l) {
        size_t v;
        return cuCtxGetLimit(&v, CUlimit(l));
    });
    sweep("cuCtxSetLimit", upTo(12), [](unsigned long long l) {
        size_t v = 0;
        if (cuCtxGetLimit(&v, CUlimit(l)) != CUDA_SUCCESS) v = 1;
        return cuCtxSetLimit(CUlimit(l), v);
    });
    sweep("cuCtxSetCacheConfig", upTo(5),
          [](unsigned long long c) { return cuCtxSetCacheConfig(CUfunc_cache(c)); });
    sweep("cuCtxSetSharedMemConfig", upTo(4),
          [](unsigned long long c) { return cuCtxSetSharedMemConfig(CUsharedconfig(c)); });
    sweep("cuDeviceGetAttribute", upTo(110), [](unsigned long long a) {
        int v;
        return cuDeviceGetAttribute(&v, CUdevice_attribute(a), device);
    });
    sweep("cuDeviceGetP2PAttribute", upTo(8), [](unsigned long long a) {
        int v;
        return cuDeviceGetP2PAttribute(&v, CUdevice_P2PAttribute(a), device, device);
    });
    sweep("cuDeviceGetExecAffinitySupport", upTo(3), [](unsigned long long a) {
        int v;
        return cuDeviceGetExecAffinitySupport(&v, CUexecAffinityType(a), device);
    });
    sweep("cuThreadExchangeStreamCaptureMode", upTo(4), [](unsigned long long m) {
        CUstreamCaptureMode mode = CUstreamCaptureMode(m);
        return cuThreadExchangeStreamCaptureMode(&mode);
    });
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CHECKCU(cuThreadExchangeStreamCaptureMode(&mode));
}

static void functions() {
    sweep("cuFuncGetAttribute", upTo(17), [](unsigned long long a) {
        int v;
        return cuFuncGetAttribute(&v, CUfunction_attribute(a), function);
    });
    for (int value : {0, 1, 100, 48 << 10, 1 << 30, -1}) {
        printf("value %d: ", value);
        sweep("cuFuncSetAttribute", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
              [&](unsigned long long a) {
                  return cuFuncSetAttribute(function, CUfunction_attribute(a), value);
              });
    }
    for (int a = 8; a < 16; a++)
        (void)cuFuncSetAttribute(function, CUfunction_attribute(a), a == 9 ? -1 : 0);
    sweep("cuFuncSetCacheConfig", upTo(5),
          [](unsigned long long c) { return cuFuncSetCacheConfig(function, CUfunc_cache(c)); });
    sweep("cuFuncSetSharedMemConfig", upTo(4), [](unsigned long long c) {
        return cuFuncSetSharedMemConfig(function, CUsharedconfig(c));
    });
    sweep("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", bits(), [](unsigned long long f) {
        int n;
        return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&n, function, 32, 0,
                                                                    (unsigned)f);
    });
}

static const char ptx[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry nothing()
{
    ret;
}
)";

static void code() {
    CUmodule m;
    for (size_t value : {0, 1}) {
        printf("value %zu: ", value);
        sweep("cuModuleLoadDataEx", upTo(36), [&](unsigned long long o) {
            CUjit_option option = CUjit_option(o);
            // These have a pointer, and 1 is no valid address.
            if (value && (o == 3 || o == 5 || (o >= 18 && o <= 29))) return CUDA_SUCCESS;
            if (!value && o == 1)
                return CUDA_SUCCESS; // threads in a block, by which the driver divides
            void *v = (void *)value;
            CUresult r = cuModuleLoadDataEx(&m, ptx, 1, &option, &v);
            if (!r) CHECKCU(cuModuleUnload(m));
            return r;
        });
    }
    sweep("cuLibraryLoadData", upTo(4), [](unsigned long long o) {
        CUlibrary l;
        CUlibraryOption option = CUlibraryOption(o);
        int yes = 1;
        void *v = &yes;
        if (o == 0) return CUDA_SUCCESS; // a pointer to functions of the program's
        CUresult r = cuLibraryLoadData(&l, ptx, nullptr, nullptr, 0, &option, &v, 1);
        if (!r) CHECKCU(cuLibraryUnload(l));
        return r;
    });
    sweep("cuLinkAddData", upTo(8), [](unsigned long long t) {
        CUlinkState s;
        CHECKCU(cuLinkCreate(0, nullptr, nullptr, &s));
        CUresult r =
            cuLinkAddData(s, CUjitInputType(t), (void *)ptx, sizeof ptx, "it", 0, nullptr, nullptr);
        CHECKCU(cuLinkDestroy(s));
        return r;
    });
    sweep("cuLinkCreate", upTo(36), [](unsigned long long o) {
        CUlinkState s;
        CUjit_option option = CUjit_option(o);
        void *v = nullptr;
        if (o == 1) return CUDA_SUCCESS; // threads in a block, by which the driver divides
        CUresult r = cuLinkCreate(1, &option, &v, &s);
        if (!r) CHECKCU(cuLinkDestroy(s));
        return r;
    });
}

static void memories() {
    sweep("cuMemHostAlloc", bits(), [](unsigned long long f) {
        void *p;
        CUresult r = cuMemHostAlloc(&p, 4096, (unsigned)f);
        if (!r) CHECKCU(cuMemFreeHost(p));
        return r;
    });
    char *own = (char *)aligned_alloc(4096, 4096);
    memset(own, 0, 4096);
    sweep("cuMemHostRegister", bits(), [&](unsigned long long f) {
        CUresult r = cuMemHostRegister(own, 4096, (unsigned)f);
        if (!r) CHECKCU(cuMemHostUnregister(own));
        return r;
    });
    free(own);
    sweep("cuMemAllocManaged", bits(), [](unsigned long long f) {
        CUdeviceptr p;
        CUresult r = cuMemAllocManaged(&p, 4096, (unsigned)f);
        if (!r) CHECKCU(cuMemFree(p));
        return r;
    });
    sweep("cuMemPoolGetAttribute", upTo(12), [](unsigned long long a) {
        CUmemoryPool p;
        uint64_t v;
        CHECKCU(cuDeviceGetDefaultMemPool(&p, device));
        return cuMemPoolGetAttribute(p, CUmemPool_attribute(a), &v);
    });
    auto props = [] {
        CUmemAllocationProp p;
        memset(&p, 0, sizeof p);
        p.type = CU_MEM_ALLOCATION_TYPE_PINNED, p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        return p;
    };
    auto make = [](const CUmemAllocationProp &p, unsigned long long flags) {
        CUmemGenericAllocationHandle h;
        CUresult r = cuMemCreate(&h, 2 << 20, &p, flags);
        if (!r) CHECKCU(cuMemRelease(h));
        return r;
    };
    sweep("cuMemCreate, flags", bits(64), [&](unsigned long long f) { return make(props(), f); });
    sweep("cuMemCreate, type", upTo(4), [&](unsigned long long t) {
        auto p = props();
        p.type = CUmemAllocationType(t);
        return make(p, 0);
    });
    sweep("cuMemCreate, location", upTo(6), [&](unsigned long long t) {
        auto p = props();
        p.location.type = CUmemLocationType(t);
        return make(p, 0);
    });
    sweep("cuMemCreate, usage", bits(16), [&](unsigned long long t) {
        auto p = props();
        p.allocFlags.usage = (unsigned short)t;
        return make(p, 0);
    });
    sweep("cuMemGetAllocationGranularity", upTo(3), [&](unsigned long long o) {
        auto p = props();
        size_t size;
        return cuMemGetAllocationGranularity(&size, &p, CUmemAllocationGranularity_flags(o));
    });
    sweep("cuMemAddressReserve", bits(64), [](unsigned long long f) {
        CUdeviceptr p;
        CUresult r = cuMemAddressReserve(&p, 2 << 20, 0, 0, f);
        if (!r) CHECKCU(cuMemAddressFree(p, 2 << 20));
        return r;
    });
    sweep("cuArray3DCreate", bits(), [](unsigned long long f) {
        CUDA_ARRAY3D_DESCRIPTOR d;
        CUarray a;
        memset(&d, 0, sizeof d);
        d.Width = d.Height = 32, d.Depth = f == 4 ? 6 : 0, d.Format = CU_AD_FORMAT_FLOAT,
        d.NumChannels = 1, d.Flags = (unsigned)f;
        if (f == 8 || f == 0x40 || f == 0x80)
            return CUDA_SUCCESS; // gather, sparse, deferred: not of every GPU
        CUresult r = cuArray3DCreate(&a, &d);
        if (!r) CHECKCU(cuArrayDestroy(a));
        return r;
    });
}

static void streams() {
    sweep("cuStreamCreate", bits(), [](unsigned long long f) {
        CUstream s;
        CUresult r = cuStreamCreate(&s, (unsigned)f);
        if (!r) CHECKCU(cuStreamDestroy(s));
        return r;
    });
    sweep("cuEventCreate", bits(), [](unsigned long long f) {
        CUevent e;
        CUresult r = cuEventCreate(&e, (unsigned)f);
        if (!r) CHECKCU(cuEventDestroy(e));
        return r;
    });
    CUevent e;
    CHECKCU(cuEventCreate(&e, 0));
    sweep("cuEventRecordWithFlags", bits(),
          [&](unsigned long long f) { return cuEventRecordWithFlags(e, stream, (unsigned)f); });
    sweep("cuStreamWaitEvent", bits(),
          [&](unsigned long long f) { return cuStreamWaitEvent(stream, e, (unsigned)f); });
    printf("behind them: %d\n", int(cuStreamSynchronize(stream)));
    CHECKCU(cuEventDestroy(e));
    sweep("cuStreamBeginCapture", upTo(4), [](unsigned long long m) {
        CUgraph g;
        CUresult r = cuStreamBeginCapture(stream, CUstreamCaptureMode(m));
        if (!r) CHECKCU(cuStreamEndCapture(stream, &g)), CHECKCU(cuGraphDestroy(g));
        return r;
    });
    sweep("cuStreamGetAttribute", upTo(20), [](unsigned long long a) {
        CUstreamAttrValue v;
        return cuStreamGetAttribute(stream, CUstreamAttrID(a), &v);
    });
    sweep("cuStreamSetAttribute", upTo(20), [](unsigned long long a) {
        CUstreamAttrValue v;
        memset(&v, 0, sizeof v);
        if (cuStreamGetAttribute(stream, CUstreamAttrID(a), &v) != CUDA_SUCCESS)
            memset(&v, 0, sizeof v);
        return cuStreamSetAttribute(stream, CUstreamAttrID(a), &v);
    });
    CUgraph g;
    CHECKCU(cuGraphCreate(&g, 0));
    sweep("cuGraphCreate", bits(), [](unsigned long long f) {
        CUgraph g;
        CUresult r = cuGraphCreate(&g, (unsigned)f);
        if (!r) CHECKCU(cuGraphDestroy(g));
        return r;
    });
    sweep("cuGraphInstantiateWithFlags", bits(64), [&](unsigned long long f) {
        CUgraphExec x;
        if (f == 4) return CUDA_SUCCESS; // launched from the device: of an empty graph it can't be
        CUresult r = cuGraphInstantiateWithFlags(&x, g, f);
        if (!r) CHECKCU(cuGraphExecDestroy(x));
        return r;
    });
    sweep("cuGraphConditionalHandleCreate", bits(), [&](unsigned long long f) {
        CUgraphConditionalHandle h;
        return cuGraphConditionalHandleCreate(&h, g, context, 0, (unsigned)f);
    });
    sweep("cuUserObjectCreate", bits(), [](unsigned long long f) {
        CUuserObject o;
        CUresult r = cuUserObjectCreate(&o, nullptr, [](void *) {}, 1, (unsigned)f);
        if (!r) CHECKCU(cuUserObjectRelease(o, 1));
        return r;
    });
    sweep("cuDeviceGetGraphMemAttribute", upTo(5), [](unsigned long long a) {
        cuuint64_t v;
        return cuDeviceGetGraphMemAttribute(device, CUgraphMem_attribute(a), &v);
    });
    CHECKCU(cuGraphDestroy(g));
}

static CUresult launch(unsigned attributes, const CUlaunchAttribute *a, unsigned blocks = 8) {
    CUlaunchConfig c;
    CUdeviceptr to = memory;
    unsigned value = 1;
    void *args[] = {&to, &value};
    memset(&c, 0, sizeof c);
    c.gridDimX = blocks, c.gridDimY = c.gridDimZ = 1, c.blockDimX = 32,
    c.blockDimY = c.blockDimZ = 1;
    c.hStream = stream, c.attrs = (CUlaunchAttribute *)a, c.numAttrs = attributes;
    CUresult r = cuLaunchKernelEx(&c, function, args, nullptr);
    CUresult end = cuStreamSynchronize(stream);
    return r ? r : end;
}

static void launches() {
    CUlaunchAttribute a[70];
    for (int value : {0, 1, 2, 99, -1}) {
        printf("value %d: ", value);
        sweep("cuLaunchKernelEx", upTo(24), [&](unsigned long long id) {
            memset(a, 0, sizeof a);
            if (id == 4 || id == 11 || id == 1 || id == 7 || id == 12 || id == 13)
                return CUDA_SUCCESS;
            a[0].id = CUlaunchAttributeID(id), *(int *)&a[0].value = value;
            return launch(1, a);
        });
    }
    sweep("attributes that are ignored", {0, 1, 2, 16, 31, 32, 33, 64, 70},
          [&](unsigned long long n) {
              memset(a, 0, sizeof a);
              return launch((unsigned)n, a);
          });
    sweep("the same one twice", {2, 3, 6, 8}, [&](unsigned long long id) {
        memset(a, 0, sizeof a);
        a[0].id = a[1].id = CUlaunchAttributeID(id);
        return launch(2, a);
    });
}

static void clusters() {
    CUlaunchAttribute a[2];
    for (unsigned blocks : {8u, 48u, 64u}) {
        printf("%u blocks: ", blocks);
        sweep("clusters", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 48, 64, 0xffffffff},
              [&](unsigned long long n) {
                  memset(a, 0, sizeof a);
                  a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
                  a[0].value.clusterDim.x = (unsigned)n,
                  a[0].value.clusterDim.y = a[0].value.clusterDim.z = 1;
                  return launch(1, a, blocks);
              });
        sweep("preferred clusters", {0, 1, 2, 3, 4, 8, 16, 17}, [&](unsigned long long n) {
            memset(a, 0, sizeof a);
            a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
            a[0].value.clusterDim.x = a[0].value.clusterDim.y = a[0].value.clusterDim.z = 1;
            a[1].id = CUlaunchAttributeID(11), a[1].value.clusterDim.x = (unsigned)n,
            a[1].value.clusterDim.y = a[1].value.clusterDim.z = 1;
            return launch(2, a, blocks);
        });
    }
    sweep("policy of clusters", {0, 1, 2, 3, 77}, [&](unsigned long long n) {
        memset(a, 0, sizeof a);
        a[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, a[0].value.clusterDim.x = 2,
        a[0].value.clusterDim.y = a[0].value.clusterDim.z = 1;
        a[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        *(int *)&a[1].value = (int)n;
        return launch(2, a);
    });
}

int main(int argc, char **argv) {
    device = openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)kernel));
    CHECKCU(cuMemAlloc(&memory, 4096));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const std::pair<const char *, void (*)()> parts[] = {
        {"contexts", contexts}, {"functions", functions}, {"code", code},
        {"memories", memories}, {"streams", streams},     {"launches", launches},
        {"clusters", clusters}};
    for (auto &p : parts)
        if (argc > 1 ? p.first == std::string(argv[1]) : p.second != clusters) p.second();
}
