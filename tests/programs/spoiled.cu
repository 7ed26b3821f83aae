// SPDX-License-Identifier: Apache-2.0
// A stream's capture is looked at before a call's arguments: what calls give about a stream whose
// capture was spoiled, which calls spoil one, and the same about the legacy stream beside it.
#include "versions.h"

static __global__ void one(unsigned *out, unsigned value) { *out = value; }

static CUfunction function;
static CUdeviceptr data;
static char *managed;
static CUevent event;
static CUstream s;

static CUstream stream(unsigned flags) {
    CUstream made;
    CHECKCU(cuStreamCreate(&made, flags));
    return made;
}

static void begin() { CHECKCU(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED)); }

static void end() {
    CUgraph g = nullptr;
    (void)cuStreamEndCapture(s, &g);
    if (g) CHECKCU(cuGraphDestroy(g));
}

static int status() {
    CUstreamCaptureStatus now;
    CHECKCU(cuStreamIsCapturing(s, &now));
    return int(now);
}

static void CUDA_CB nothing(void *) {}
static void CUDA_CB callback(CUstream, CUresult, void *) {}

// launched launches a kernel in a stream: with a grid, an attribute of that number, and arguments.
// Or it asks how many clusters of such a launch there is room for.
static CUresult launched(CUstream where, unsigned grid, int attribute, bool arguments = true,
                         bool ask = false) {
    CUlaunchConfig c = {};
    CUlaunchAttribute a = {};
    unsigned value = 1;
    void *args[] = {&data, &value};
    int n;
    c.gridDimX = grid, c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
    c.hStream = where, c.attrs = &a, c.numAttrs = attribute >= 0;
    a.id = CUlaunchAttributeID(attribute);
    if (ask) return cuOccupancyMaxActiveClusters(&n, function, &c);
    return cuLaunchKernelEx(&c, function, arguments ? args : nullptr, nullptr);
}

struct Call {
    const char *what;
    CUresult (*call)(CUstream);
};

static const CUstreamAttrID policy = CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY;
static CUstreamAttrValue value;
static CUstreamBatchMemOpParams operation;

static const Call calls[] = {
    {"context", [](CUstream t) { CUcontext c; return cuStreamGetCtx(t, &c); }},
    {"context to nowhere", [](CUstream t) { return cuStreamGetCtx(t, nullptr); }},
    {"priority", [](CUstream t) { int p; return cuStreamGetPriority(t, &p); }},
    {"flags", [](CUstream t) { unsigned f; return cuStreamGetFlags(t, &f); }},
    {"attribute",
     [](CUstream t) { return cuStreamGetAttribute(t, policy, &value); }},
    {"attribute that isn't there",
     [](CUstream t) { return cuStreamGetAttribute(t, CUstreamAttrID(15), &value); }},
    {"set an attribute that isn't there",
     [](CUstream t) { return cuStreamSetAttribute(t, CUstreamAttrID(15), &value); }},
    {"record", [](CUstream t) { return cuEventRecord(event, t); }},
    {"record no event", [](CUstream t) { return cuEventRecord(nullptr, t); }},
    {"wait with unknown flags", [](CUstream t) { return cuStreamWaitEvent(t, event, 2); }},
    {"wait for no event", [](CUstream t) { return cuStreamWaitEvent(t, nullptr, 0); }},
    {"host function", [](CUstream t) { return cuLaunchHostFunc(t, nothing, nullptr); }},
    {"no host function", [](CUstream t) { return cuLaunchHostFunc(t, nullptr, nullptr); }},
    {"callback", [](CUstream t) { return cuStreamAddCallback(t, callback, nullptr, 0); }},
    {"callback with flags",
     [](CUstream t) { return cuStreamAddCallback(t, callback, nullptr, 1); }},
    {"no operations on memory",
     [](CUstream t) { return cuStreamBatchMemOp(t, 0, &operation, 0); }},
    {"attach with unknown flags",
     [](CUstream t) { return cuStreamAttachMemAsync(t, (CUdeviceptr)managed, 0, 8); }},
    {"copy to nowhere", [](CUstream t) { return cuMemcpyDtoDAsync(0, data, 4, t); }},
    {"launch", [](CUstream t) { return launched(t, 1, -1); }},
    {"launch with an unknown attribute", [](CUstream t) { return launched(t, 1, 1000); }},
    {"launch without arguments", [](CUstream t) { return launched(t, 1, -1, false); }},
    {"launch an empty grid", [](CUstream t) { return launched(t, 0, -1); }},
};

// spoiled makes each call about a stream whose capture was spoiled.
static void spoiled() {
    puts("spoiled:");
    for (auto &c : calls) {
        begin();
        (void)cuStreamQuery(s);
        printf("%s: %d\n", c.what, int(c.call(s)));
        end();
    }
    begin();
    (void)cuStreamQuery(s);
    printf("clusters: %d\n", int(launched(s, 1, 1000, true, true)));
    end();
}

// captured makes each call about a stream that is captured, and tells what became of the capture.
static void captured() {
    puts("captured:");
    for (auto &c : calls) {
        begin();
        CUresult r = c.call(s);
        printf("%s: %d, status %d\n", c.what, int(r), status());
        end();
    }
}

// beside makes each call about the legacy stream, which waits for the one that is captured.
static void beside() {
    puts("beside:");
    for (auto &c : calls) {
        begin();
        CUresult r = c.call(CU_STREAM_LEGACY);
        printf("%s: %d, status %d\n", c.what, int(r), status());
        end();
    }
    for (CUstream t : {(CUstream)0, CU_STREAM_LEGACY}) {
        begin();
        CUresult r = cuStreamDestroy(t);
        printf("destroy: %d, status %d\n", int(r), status());
        end();
    }
}

// points asks for events that stand for points of captures.
static void points() {
    puts("points:");
    begin();
    CHECKCU(cuEventRecord(event, s));
    CUresult r = cuEventSynchronize(event);
    printf("of a capture: %d, status %d\n", int(r), status());
    printf("of one that was spoiled: %d\n", int(cuEventSynchronize(event)));
    end();
    printf("of one that is over: %d\n", int(cuEventSynchronize(event)));
    CHECKCU(cuEventRecord(event, s));
    CHECKCU(cuEventSynchronize(event));
}

// priorities follow the attributes.
static void priorities() {
    CUstream high;
    int p;
    CHECKCU(cuStreamCreateWithPriority(&high, 0, -2));
    for (CUstream t : {s, CU_STREAM_LEGACY}) {
        CHECKCU(cuStreamCopyAttributes(t, high));
        CHECKCU(cuStreamGetPriority(t, &p));
        printf("priority %d", p);
        value.priority = -1;
        CHECKCU(cuStreamSetAttribute(t, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
        CHECKCU(cuStreamGetPriority(t, &p));
        printf(", then %d\n", p);
    }
    CHECKCU(cuStreamDestroy(high));
}

int main() {
    openDevice();
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)one));
    CHECKCU(cuMemAlloc(&data, 4096));
    CHECK(cudaMallocManaged(&managed, 4096));
    CHECKCU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned flags : {CU_STREAM_NON_BLOCKING, CU_STREAM_DEFAULT}) {
        s = stream(flags);
        spoiled();
        captured();
        if (!flags) beside();
        points();
        priorities();
        CHECKCU(cuStreamDestroy(s));
    }
    return 0;
}
