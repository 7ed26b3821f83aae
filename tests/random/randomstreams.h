// SPDX-License-Identifier: Apache-2.0
// What randomstreams.cu has made: streams, events and captures, and their names.
#ifndef RANDOMSTREAMS_H
#define RANDOMSTREAMS_H

#include "randomcalls.h"
#include <algorithm>

typedef CUgraphNode Node;
struct EdgeData { unsigned char from, to, type, reserved[5]; };

static std::vector<CUstream> streams;
static std::vector<CUevent> events;
static std::vector<CUgraph> graphs;
static std::vector<CUstream> into; // streams that are captured to the graph
static CUfunction function;
static CUcontext context;
static CUdeviceptr device;
static char *pinned, *managed;
static unsigned made;

template <typename T> static T named(T handle, const char *kind) {
    std::string s = kind + std::to_string(made++);
    if (handle) names[(const void *)handle] = s;
    also("%s", s.c_str());
    return handle;
}

static CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus c = CU_STREAM_CAPTURE_STATUS_NONE;
    cuStreamIsCapturing(s, &c);
    return c;
}

static bool capturing() {
    for (CUstream s : streams)
        if (status(s) != CU_STREAM_CAPTURE_STATUS_NONE) return true;
    return false;
}

// settle waits until all work is over, so that queries have only one answer.
static bool settle() { return !capturing() && cuCtxSynchronize() == CUDA_SUCCESS; }

static CUstream own() { return streams.empty() ? nullptr : pick(streams); }
static CUstream anyStream() {
    return rarely(10) ? pick({(CUstream)0, (CUstream)1, (CUstream)2}) : own();
}
static CUevent anyEvent() { return events.empty() || rarely(25) ? nullptr : pick(events); }

// captureEnded notes that a capture in s is over. One to a graph takes the graph with it unless it
// succeeds: then there is another one.
static void captureEnded(CUstream s, bool success) {
    auto at = std::find(into.begin(), into.end(), s);
    if (at == into.end()) return;
    into.erase(at);
    if (success) return;
    names.erase(graphs[0]);
    CHECKCU(cuGraphCreate(&graphs[0], 0));
    names[graphs[0]] = "graph";
}

#endif
