// SPDX-License-Identifier: Apache-2.0
// Random calls about streams, events, captures and launches, right and wrong.
#include "randomcaptures.h"

static __global__ void one(unsigned *out, unsigned value) { *out = value; }

static void make() {
    CUstream s = nullptr;
    unsigned flags = rarely(10) ? pick({2u, 3u, 0x100u}) : below(2);
    if (streams.size() > 5) return;
    if (rarely(2)) {
        call("cuStreamCreate %u", flags);
        if (ended(cuStreamCreate(rarely(40) ? nullptr : &s, flags)) == CUDA_SUCCESS)
            streams.push_back(named(s, "s"));
        return;
    }
    int priority = rarely(3) ? pick({-100, 1, 100}) : -(int)below(6);
    call("cuStreamCreateWithPriority %u %d", flags, priority);
    if (ended(cuStreamCreateWithPriority(rarely(40) ? nullptr : &s, flags, priority)) ==
        CUDA_SUCCESS)
        streams.push_back(named(s, "s"));
}

static void destroy() {
    CUstream s = rarely(10) ? pick({(CUstream)0, (CUstream)1, (CUstream)2}) : own();
    if (s > (CUstream)2 && streams.size() < 2) return;
    call("cuStreamDestroy %s", NM(s));
    if (ended(cuStreamDestroy(s)) != CUDA_SUCCESS) return;
    captureEnded(s, false);
    names.erase(s);
    streams.erase(std::remove(streams.begin(), streams.end(), s), streams.end());
}

static std::map<unsigned long long, unsigned> ids;

static void ask() {
    CUstream s = anyStream();
    unsigned flags = 99;
    int number = 99;
    switch (below(9)) {
    case 0:
        call("cuStreamGetFlags %s", NM(s));
        if (ended(cuStreamGetFlags(s, rarely(40) ? nullptr : &flags)) == CUDA_SUCCESS)
            also("%u", flags);
        break;
    case 1:
        call("cuStreamGetPriority %s", NM(s));
        if (ended(cuStreamGetPriority(s, rarely(40) ? nullptr : &number)) == CUDA_SUCCESS)
            also("%d", number);
        break;
    case 2: {
        unsigned long long id = 99;
        call("cuStreamGetId %s", NM(s));
        if (ended(cuStreamGetId(s, rarely(40) ? nullptr : &id)) == CUDA_SUCCESS && s > (CUstream)2)
            also("%u", ids.emplace(id, (unsigned)ids.size()).first->second);
        break;
    }
    case 3: {
        CUcontext c = nullptr;
        call("cuStreamGetCtx %s", NM(s));
        static auto f = get<CUresult(CUstream, CUcontext *)>("cuStreamGetCtx", 9020);
        if (ended(f(s, rarely(40) ? nullptr : &c)) == CUDA_SUCCESS) also("%s", NM(c));
        break;
    }
    case 4: {
        CUcontext c = nullptr;
        void *green = (void *)1;
        call("cuStreamGetCtx_v2 %s", NM(s));
        static auto f = get<CUresult(CUstream, CUcontext *, void **)>("cuStreamGetCtx", 12050);
        bool a = rarely(20), b = rarely(20);
        if (ended(f(s, a ? nullptr : &c, b ? nullptr : &green)) == CUDA_SUCCESS)
            also("%s %s", NM(c), green == (void *)1 ? "-" : NM(green));
        break;
    }
    case 5: {
        CUdevice d = 99;
        call("cuStreamGetDevice %s", NM(s));
        static auto f = get<CUresult(CUstream, CUdevice *)>("cuStreamGetDevice", 12080);
        if (ended(f(s, rarely(40) ? nullptr : &d)) == CUDA_SUCCESS) also("%d", d);
        break;
    }
    case 6: {
        CUstreamCaptureStatus c = CUstreamCaptureStatus(99);
        call("cuStreamIsCapturing %s", NM(s));
        if (ended(cuStreamIsCapturing(s, rarely(40) ? nullptr : &c)) == CUDA_SUCCESS)
            also("%d", int(c));
        break;
    }
    case 7:
        if (!settle()) s = own();
        if (!settle() && (!s || status(s) == CU_STREAM_CAPTURE_STATUS_NONE)) return;
        call("cuStreamQuery %s", NM(s));
        ended(cuStreamQuery(s));
        break;
    default: call("cuStreamSynchronize %s", NM(s)), ended(cuStreamSynchronize(s));
    }
}

// Attributes.
static void attributes() {
    CUstream s = anyStream(), t = anyStream();
    CUstreamAttrValue v;
    memset(&v, 0, sizeof v);
    int id = rarely(5) ? pick({-1, 0, 2, 4, 8, 17, 30, 100}) : pick({1, 3, 9, 10, 15});
    switch (below(3)) {
    case 0:
        if (id == 1)
            v.accessPolicyWindow.num_bytes = rarely(2) ? 0 : 1024,
            v.accessPolicyWindow.base_ptr = rarely(3) ? nullptr : (void *)device,
            v.accessPolicyWindow.hitRatio = rarely(5) ? 2.f : 0.5f,
            v.accessPolicyWindow.hitProp = CUaccessProperty(below(4)),
            v.accessPolicyWindow.missProp = CUaccessProperty(below(3));
        else if (id == 9)
            *(unsigned char *)&v = (unsigned char)below(3),
                            *((unsigned char *)&v + 1) = (unsigned char)below(3);
        else *(int *)&v = rarely(3) ? pick({-1, -3, 9, 77}) : (int)below(4);
        call("cuStreamSetAttribute %s %d %d", NM(s), id,
             id == 1 ? int(v.accessPolicyWindow.num_bytes) : *(int *)&v);
        if (id == 1)
            also("%s %g %d %d", v.accessPolicyWindow.base_ptr ? "device" : "null",
                 v.accessPolicyWindow.hitRatio, v.accessPolicyWindow.hitProp,
                 v.accessPolicyWindow.missProp);
        ended(cuStreamSetAttribute(s, CUstreamAttrID(id), &v));
        break;
    case 1:
        call("cuStreamGetAttribute %s %d", NM(s), id);
        if (ended(cuStreamGetAttribute(s, CUstreamAttrID(id), &v)) != CUDA_SUCCESS) break;
        if (id == 1)
            also("%s %zu %g %d %d", WHERE(v.accessPolicyWindow.base_ptr),
                 v.accessPolicyWindow.num_bytes, v.accessPolicyWindow.hitRatio,
                 v.accessPolicyWindow.hitProp, v.accessPolicyWindow.missProp);
        else also("%d", *(int *)&v);
        break;
    default:
        call("cuStreamCopyAttributes %s %s", NM(s), NM(t)), ended(cuStreamCopyAttributes(s, t));
    }
}

// Events.
static void event() {
    CUevent e = anyEvent(), f = anyEvent();
    CUstream s = anyStream();
    unsigned flags = rarely(8) ? pick({4u, 6u, 8u, 0x20u}) : below(4);
    switch (below(10)) {
    case 0:
        if (events.size() > 5) return;
        call("cuEventCreate %u", flags);
        if (ended(cuEventCreate(rarely(40) ? nullptr : &e, flags)) == CUDA_SUCCESS)
            events.push_back(named(e, "e"));
        break;
    case 1:
        if (!rarely(3)) return;
        call("cuEventDestroy %s", NM(e));
        if (ended(cuEventDestroy(e)) == CUDA_SUCCESS)
            names.erase(e),
                events.erase(std::remove(events.begin(), events.end(), e), events.end());
        break;
    case 2:
        flags = rarely(8) ? pick({2u, 3u}) : below(2);
        if (flags == 1 && !capturing()) flags = rarely(4);
        call("cuEventRecordWithFlags %s %s %u", NM(e), NM(s), flags);
        ended(cuEventRecordWithFlags(e, s, flags));
        break;
    case 3:
        if (!settle()) return;
        call("cuEventQuery %s", NM(e)), ended(cuEventQuery(e));
        break;
    case 4: call("cuEventSynchronize %s", NM(e)), ended(cuEventSynchronize(e)); break;
    case 5: {
        if (!settle()) return;
        static auto elapsed = get<CUresult(float *, CUevent, CUevent)>("cuEventElapsedTime", 12080);
        float ms = -1;
        call("cuEventElapsedTime %s %s", NM(e), NM(f));
        ended(elapsed(rarely(40) ? nullptr : &ms, e, f));
        break;
    }
    case 6:
    case 7:
        flags = rarely(8) ? pick({2u, 3u}) : rarely(4);
        call("cuStreamWaitEvent %s %s %u", NM(s), NM(e), flags),
            ended(cuStreamWaitEvent(s, e, flags));
        break;
    default: call("cuEventRecord %s %s", NM(e), NM(s)), ended(cuEventRecord(e, s));
    }
}

static unsigned callbacks;
static void CUDA_CB hostFunction(void *) { __atomic_fetch_add(&callbacks, 1, __ATOMIC_SEQ_CST); }
static void CUDA_CB callback(CUstream, CUresult r, void *) {
    __atomic_fetch_add(&callbacks, r == CUDA_SUCCESS ? 100 : 10000, __ATOMIC_SEQ_CST);
}

// Work.
static void work() {
    CUstream s = anyStream();
    unsigned flags = rarely(8) ? pick({1u, 2u, 3u, 8u, 1u << 30}) : 0;
    CUdeviceptr to = rarely(25) ? 0 : rarely(20) ? device + 2 : device + 8 * below(8);
    switch (below(9)) {
    case 0:
        call("cuMemsetD32Async %s %s", NM(s), WHERE(to)),
            ended(cuMemsetD32Async(to, below(100), 4, s));
        break;
    case 1:
        call("cuMemcpyDtoDAsync %s %s", NM(s), WHERE(to)),
            ended(cuMemcpyDtoDAsync(device + 1024, to, 16, s));
        break;
    case 2:
        call("cuMemcpyHtoDAsync %s %s", NM(s), WHERE(to)),
            ended(cuMemcpyHtoDAsync(to, pinned, 16, s));
        break;
    case 3: {
        CUhostFn f = rarely(10) ? nullptr : hostFunction;
        call("cuLaunchHostFunc %s %s", NM(s), f ? "fn" : "null"),
            ended(cuLaunchHostFunc(s, f, nullptr));
        break;
    }
    case 4: {
        CUstreamCallback f = rarely(10) ? nullptr : callback;
        flags = rarely(8);
        call("cuStreamAddCallback %s %s %u", NM(s), f ? "fn" : "null", flags),
            ended(cuStreamAddCallback(s, f, nullptr, flags));
        break;
    }
    case 5:
        call("cuStreamWriteValue32 %s %s %x", NM(s), WHERE(to), flags),
            ended(cuStreamWriteValue32(s, to, 5, flags));
        break;
    case 6: flags = rarely(8) ? pick({4u, 8u, 1u << 31}) : 0;
        call("cuStreamWaitValue32 %s %s %x", NM(s), WHERE(to), flags),
            ended(cuStreamWaitValue32(s, to, 0, flags));
        break;
    case 7: {
        size_t length = rarely(2) ? 0 : 4096;
        CUdeviceptr p = rarely(12) ? device : (CUdeviceptr)managed;
        flags = rarely(8) ? pick({3u, 8u}) : pick({1u, 2u, 4u});
        call("cuStreamAttachMemAsync %s %s %zu %u", NM(s), WHERE(p), length, flags),
            ended(cuStreamAttachMemAsync(s, p, length, flags));
        break;
    }
    default: {
        CUstreamBatchMemOpParams ops[2];
        memset(ops, 0, sizeof ops);
        for (auto &o : ops) {
            o.operation =
                CUstreamBatchMemOpType(rarely(10) ? pick({0, 3, 6, 7, 50}) : pick({2, 5}));
            o.writeValue.address = to, o.writeValue.value64 = 7,
            o.writeValue.flags = rarely(15) ? 2 : 0;
        }
        unsigned n = rarely(10) ? pick({0u, 257u}) : 1 + below(2), f = rarely(15);
        if (n == 257) n = 0;
        call("cuStreamBatchMemOp %s %u (%d %s %x) (%d %x) %u", NM(s), n, int(ops[0].operation),
             WHERE(to), ops[0].writeValue.flags, int(ops[1].operation), ops[1].writeValue.flags, f);
        ended(cuStreamBatchMemOp(s, n, ops, f));
    }
    }
}

// Launches, with attributes.
static void launch() {
    CUstream s = anyStream();
    CUlaunchConfig c;
    CUlaunchAttribute a[3];
    memset(&c, 0, sizeof c);
    memset(a, 0, sizeof a);
    c.gridDimX = rarely(12) ? pick({0u, 7u}) : 4 * (1 + below(4)), c.gridDimY = c.gridDimZ = 1;
    c.blockDimX = rarely(12) ? pick({0u, 1024u, 1025u}) : 32, c.blockDimY = c.blockDimZ = 1;
    c.sharedMemBytes = rarely(12) ? pick({49152u, 49153u, 1u << 24}) : 0;
    c.hStream = s;
    c.numAttrs = below(3);
    c.attrs = c.numAttrs && rarely(20) ? nullptr : a;
    call("  launch {%u %u %u %s", c.gridDimX, c.blockDimX, c.sharedMemBytes,
         c.attrs ? "" : "no attributes");
    for (unsigned i = 0; i < c.numAttrs; i++) {
        int id = rarely(6) ? pick({-1, 17, 18, 40, 1000})
                           : pick({0, 1, 2, 3, 4, 4, 4, 5, 6, 8, 9, 10, 11, 14, 15, 16});
        a[i].id = CUlaunchAttributeID(id);
        if (id == 4 || id == 11) {
            a[i].value.clusterDim.x =
                rarely(3) ? pick({0u, 3u, 8u, 16u, 17u, 32u, 1000u}) : 1u << below(3);
            a[i].value.clusterDim.y = rarely(12) ? 2 : 1, a[i].value.clusterDim.z = 1;
            also("%d: %u,%u", id, a[i].value.clusterDim.x, a[i].value.clusterDim.y);
        } else {
            if (id != 1) *(int *)&a[i].value = rarely(6) ? pick({-1, 3, 99}) : (int)below(3);
            also("%d: %d", id, *(int *)&a[i].value);
        }
    }
    also("}");
    CUdeviceptr to = device;
    unsigned value = below(100);
    void *args[] = {&to, &value};
    CUfunction f = rarely(30) ? nullptr : function;
    void **p = rarely(25) ? nullptr : args;
    call("cuLaunchKernelEx %s %s%s", NM(s), NM(f), p ? "" : " no args");
    ended(cuLaunchKernelEx(rarely(60) ? nullptr : &c, f, p, nullptr));
    int n = -1;
    if (rarely(3)) {
        call("cuOccupancyMaxActiveClusters");
        if (ended(cuOccupancyMaxActiveClusters(&n, function, &c)) == CUDA_SUCCESS)
            also("%d", n > 0);
        call("cuOccupancyMaxPotentialClusterSize");
        if (ended(cuOccupancyMaxPotentialClusterSize(&n, function, &c)) == CUDA_SUCCESS)
            also("%d", n);
    }
}

// resetDefaults gives the default streams the attributes that they began with: they outlive the
// sequence.
static void resetDefaults() {
    CUstream s;
    CHECKCU(cuStreamCreate(&s, 0));
    for (CUstream to : {(CUstream)1, (CUstream)2}) CHECKCU(cuStreamCopyAttributes(to, s));
    CHECKCU(cuStreamDestroy(s));
}

static void sequence() {
    made = 0, callbacks = 0;
    ids.clear();
    CUgraph g;
    CHECKCU(cuGraphCreate(&g, 0));
    graphs.push_back(g), names[g] = "graph";
    for (int i = 0; i < 2; i++) {
        CUstream s;
        CUevent e;
        call("start");
        CHECKCU(cuStreamCreate(&s, i));
        CHECKCU(cuEventCreate(&e, i ? CU_EVENT_DISABLE_TIMING : 0));
        streams.push_back(named(s, "s")), events.push_back(named(e, "e"));
    }
    bool plain = rarely(3); // without captures
    for (int i = 0; i < 60; i++) {
        unsigned k = below(100);
        if (k < 6) make();
        else if (k < 9) destroy();
        else if (k < 27) ask();
        else if (k < 35) attributes();
        else if (k < 52) event();
        else if (k < 75 && !plain) capture();
        else if (k < 90) work();
        else launch();
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    cuThreadExchangeStreamCaptureMode(&mode);
    for (CUstream s : streams) {
        CUgraph x = nullptr;
        if (status(s) == CU_STREAM_CAPTURE_STATUS_NONE) continue;
        CUresult result = cuStreamEndCapture(s, &x);
        if (status(s) == CU_STREAM_CAPTURE_STATUS_NONE) captureEnded(s, result == CUDA_SUCCESS);
        if (result == CUDA_SUCCESS && x && x != graphs[0]) cuGraphDestroy(x);
    }
    resetDefaults();
    for (CUstream s : streams) cuStreamDestroy(s), names.erase(s);
    for (CUevent e : events) cuEventDestroy(e), names.erase(e);
    cuGraphDestroy(graphs[0]), names.erase(graphs[0]);
    streams.clear(), events.clear(), graphs.clear(), into.clear();
    call("end"), ended(cuCtxSynchronize());
    also("callbacks %u", __atomic_load_n(&callbacks, __ATOMIC_SEQ_CST));
}

int main(int argc, char **argv) {
    openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)one));
    CHECKCU(cuMemAlloc(&device, 4096));
    CHECK(cudaMallocHost(&pinned, 4096));
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECKCU(cuMemsetD8(device, 0, 4096));
    region(device, 4096, "device"), region(pinned, 4096, "pinned"),
        region(managed, 4096, "managed");
    names[context] = "context", names[function] = "function";
    names[(void *)1] = "legacy", names[(void *)2] = "perthread";
    return sequences(argc, argv, 20, sequence);
}
