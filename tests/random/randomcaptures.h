// SPDX-License-Identifier: Apache-2.0
// How randomstreams.cu captures.
#ifndef RANDOMCAPTURES_H
#define RANDOMCAPTURES_H

#include "randomstreams.h"

static void showNodes(CUgraph g, const Node *nodes, size_t n) {
    std::vector<Node> all(64);
    size_t count = all.size();
    if (!g || cuGraphGetNodes(g, all.data(), &count) != CUDA_SUCCESS) count = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < count && all[at] != nodes[i]) at++;
        also("%d", at < count ? int(at) : -1);
    }
}

static void showGraph(CUgraph g) {
    std::vector<Node> nodes(64);
    size_t n = nodes.size();
    if (cuGraphGetNodes(g, nodes.data(), &n) != CUDA_SUCCESS) return;
    also("[");
    for (size_t i = 0; i < n; i++) {
        CUgraphNodeType type;
        cuGraphNodeGetType(nodes[i], &type);
        printf(" %d", int(type));
    }
    also("]");
}

static void capture() {
    CUstream s = own();
    CUgraph g = nullptr;
    int mode = rarely(12) ? pick({-1, 3}) : (int)below(3);
    if (rarely(15)) s = anyStream();
    switch (below(10)) {
    case 0:
    case 1:
        call("cuStreamBeginCapture %s %d", NM(s), mode),
            ended(cuStreamBeginCapture(s, CUstreamCaptureMode(mode)));
        break;
    case 2:
    case 3: {
        bool null = rarely(12);
        call("cuStreamEndCapture %s%s", NM(s), null ? " to null" : "");
        CUresult result = ended(cuStreamEndCapture(s, null ? nullptr : &g));
        if (status(s) == CU_STREAM_CAPTURE_STATUS_NONE) captureEnded(s, result == CUDA_SUCCESS);
        if (result == CUDA_SUCCESS && g) {
            bool known = std::find(graphs.begin(), graphs.end(), g) != graphs.end();
            also("%s", known ? "graph that was there" : "graph"), showGraph(g);
            if (!known) cuGraphDestroy(g);
        } else also("%s", g ? "some" : "none");
        break;
    }
    case 4: {
        CUstreamCaptureStatus c = CUstreamCaptureStatus(99);
        cuuint64_t id = 0;
        static auto f = get<CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *)>(
            "cuStreamGetCaptureInfo", 10010);
        call("cuStreamGetCaptureInfo %s", NM(s));
        if (ended(f(s, rarely(30) ? nullptr : &c, rarely(4) ? nullptr : &id)) == CUDA_SUCCESS)
            also("%d %s", int(c), id ? "id" : "none");
        break;
    }
    case 5: {
        CUstreamCaptureStatus c = CUstreamCaptureStatus(99);
        cuuint64_t id = 0;
        const Node *nodes = nullptr;
        const EdgeData *data = (const EdgeData *)1;
        size_t n = 99;
        bool noData = rarely(2);
        static auto f =
            get<CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const Node **,
                         const EdgeData **, size_t *)>("cuStreamGetCaptureInfo", 12030);
        call("cuStreamGetCaptureInfo_v3 %s%s", NM(s), noData ? " no data" : "");
        if (ended(f(s, rarely(30) ? nullptr : &c, &id, &g, &nodes, noData ? nullptr : &data,
                    rarely(30) ? nullptr : &n)) == CUDA_SUCCESS) {
            also("%d", int(c));
            if (c == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
                also("%s %zu:", id ? "id" : "none", n);
                if (n != 99) showNodes(g, nodes, n);
            }
        }
        break;
    }
    case 6: {
        static auto f = get<CUresult(CUstream, Node *, const EdgeData *, size_t, unsigned)>(
            "cuStreamUpdateCaptureDependencies", 12030);
        static auto info =
            get<CUresult(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const Node **,
                         const EdgeData **, size_t *)>("cuStreamGetCaptureInfo", 12030);
        CUstreamCaptureStatus c = CU_STREAM_CAPTURE_STATUS_NONE;
        Node chosen = nullptr;
        std::vector<Node> nodes(64);
        size_t n = nodes.size();
        if (s > (CUstream)2 &&
            info(s, &c, nullptr, &g, nullptr, nullptr, nullptr) == CUDA_SUCCESS &&
            c == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
            cuGraphGetNodes(g, nodes.data(), &n) == CUDA_SUCCESS && n)
            chosen = nodes[below((unsigned)n)];
        unsigned flags = rarely(8) ? 2 : below(2);
        size_t count = !chosen || rarely(4) ? 0 : 1;
        call("cuStreamUpdateCaptureDependencies %s %zu %u", NM(s), count, flags);
        ended(f(s, count || rarely(2) ? &chosen : nullptr, nullptr, count, flags));
        break;
    }
    case 7: {
        CUstreamCaptureMode m = CUstreamCaptureMode(mode);
        call("cuThreadExchangeStreamCaptureMode %d", mode);
        if (ended(cuThreadExchangeStreamCaptureMode(&m)) == CUDA_SUCCESS)
            also("%d", int(m)); // with a null pointer the driver crashes
        break;
    }
    case 8: {
        static auto f = get<CUresult(CUstream, CUgraph, const Node *, const EdgeData *, size_t,
                                     CUstreamCaptureMode)>("cuStreamBeginCaptureToGraph", 12030);
        CUgraph to = rarely(10) ? nullptr : pick(graphs);
        std::vector<Node> nodes(64);
        size_t n = nodes.size();
        if (!to || cuGraphGetNodes(to, nodes.data(), &n) != CUDA_SUCCESS) n = 0;
        if (n > 8) return;
        Node d = n ? nodes[below((unsigned)n)] : nullptr;
        size_t count = 0;
        call("cuStreamBeginCaptureToGraph %s %s %zu %d", NM(s), NM(to), count, mode);
        if (ended(f(s, to, count ? &d : nullptr, nullptr, count, CUstreamCaptureMode(mode))) ==
            CUDA_SUCCESS)
            into.push_back(s);
        break;
    }
    default: {
        if (!capturing() && !rarely(4)) return;
        switch (below(5)) {
        case 0: call("cuCtxSynchronize"), ended(cuCtxSynchronize()); break;
        case 1: {
            CUdeviceptr p = 0;
            call("cuMemAlloc 100");
            if (ended(cuMemAlloc(&p, 100)) == CUDA_SUCCESS) call("cuMemFree"), ended(cuMemFree(p));
            break;
        }
        case 2: {
            unsigned v;
            call("cuMemcpyDtoH"), ended(cuMemcpyDtoH(&v, device, 4));
            break;
        }
        case 3: call("cuMemsetD8"), ended(cuMemsetD8(device, 1, 16)); break;
        default: {
            CUevent e;
            call("cuEventCreate 0");
            if (ended(cuEventCreate(&e, 0)) == CUDA_SUCCESS) cuEventDestroy(e);
        }
        }
    }
    }
}

#endif
