// SPDX-License-Identifier: Apache-2.0
// Random calls that make, fill, copy, map and free memory, right and wrong.
#include "randomvirtual.h"

static void allocate() {
    CUdeviceptr d = 0;
    void *h = nullptr;
    if (ranges.size() > 8) return;
    size_t bytes = rarely(15) ? pick({size_t(0), size_t(1) << 50, ~size_t(0)}) : 1 + below(20000),
           pitch = 99;
    switch (below(7)) {
    case 0:
        call("cuMemAlloc %zu", bytes);
        if (ended(cuMemAlloc(rarely(30) ? nullptr : &d, bytes)) == CUDA_SUCCESS)
            enter('d', d, bytes);
        break;
    case 1: {
        size_t height = rarely(15) ? 0 : 1 + below(5);
        unsigned element = rarely(8) ? pick({0u, 2u, 5u, 32u}) : 4u << below(3);
        call("cuMemAllocPitch %zu %zu %u", bytes, height, element);
        if (ended(cuMemAllocPitch(&d, rarely(30) ? nullptr : &pitch, bytes, height, element)) ==
            CUDA_SUCCESS)
            also("%zu", pitch), enter('d', d, pitch * height);
        break;
    }
    case 2: {
        unsigned flags = rarely(8) ? pick({8u, 16u, 0x100u}) : below(8);
        call("cuMemHostAlloc %zu %u", bytes, flags);
        if (ended(cuMemHostAlloc(rarely(30) ? nullptr : &h, bytes, flags)) == CUDA_SUCCESS && h)
            enter('h', (uint64_t)h, bytes);
        break;
    }
    case 3: {
        unsigned flags = rarely(8) ? pick({16u, 32u, 0x100u}) : below(4);
        if (bytes > 20000) bytes = 0;
        h = plain + 4 * below(4000);
        if (rarely(25)) h = nullptr;
        call("cuMemHostRegister %s %zu %u", WHERE(h), bytes, flags);
        if (ended(cuMemHostRegister(h, bytes, flags)) == CUDA_SUCCESS)
            enter('r', (uint64_t)h, bytes);
        break;
    }
    case 4: {
        unsigned flags = rarely(8) ? pick({0u, 3u, 4u, 8u}) : 1 + below(2);
        if (bytes == size_t(1) << 50) bytes = 0;
        // Advice holds for whole pages, and small allocations share a page.
        if (bytes < size_t(1) << 40) bytes = (bytes + 4095) & ~size_t(4095);
        call("cuMemAllocManaged %zu %u", bytes, flags);
        if (ended(cuMemAllocManaged(rarely(30) ? nullptr : &d, bytes, flags)) == CUDA_SUCCESS)
            enter('m', d, bytes);
        break;
    }
    default: {
        CUmemoryPool p = pools.empty() || rarely(20) ? nullptr : pick(pools);
        bool any = rarely(3);
        call("cuMemAlloc%sAsync %zu %s", any ? "" : "FromPool", bytes, any ? "-" : NM(p));
        CUdeviceptr *out = rarely(30) ? nullptr : &d;
        if (ended(any ? cuMemAllocAsync(out, bytes, stream)
                      : cuMemAllocFromPoolAsync(out, bytes, p, stream)) == CUDA_SUCCESS)
            enter('a', d, bytes);
    }
    }
}

static void forget(uint64_t base) {
    regions.erase(base);
    ranges.erase(std::remove_if(ranges.begin(), ranges.end(),
                                [&](const Memory &m) { return m.base == base; }),
                 ranges.end());
}

static void give() {
    Memory m = ranges.empty() ? Memory{'d', 0, 0} : pick(ranges);
    uint64_t at = rarely(10) ? 0 : rarely(12) ? m.base + 1 + below((unsigned)m.bytes) : m.base;
    char how = rarely(12) ? pick({'d', 'h', 'r', 'a'}) : m.kind;
    if (how != m.kind && at == m.base && m.kind == 'a') return;
    CUresult r;
    cuStreamSynchronize(stream);
    switch (how) {
    case 'h': call("cuMemFreeHost %s", WHERE(at)), r = cuMemFreeHost((void *)at); break;
    case 'r': call("cuMemHostUnregister %s", WHERE(at)), r = cuMemHostUnregister((void *)at); break;
    case 'a': call("cuMemFreeAsync %s", WHERE(at)), r = cuMemFreeAsync(at, stream); break;
    default: call("cuMemFree %s", WHERE(at)), r = cuMemFree(at);
    }
    if (ended(r) == CUDA_SUCCESS && at == m.base) forget(at);
}

// An address, mostly one with room for so many bytes.
static uint64_t place(size_t bytes) {
    std::vector<uint64_t> fit;
    for (const Memory &m : ranges)
        if (m.bytes >= bytes + 32) fit.push_back(m.base + 4 * below(8));
    if (rarely(20)) return 0;
    if (fit.empty()) return (uint64_t)plain + 4 * below(8);
    return pick(fit);
}
static uint64_t device(size_t bytes) {
    for (int i = 0; i < 8; i++) {
        uint64_t p = place(bytes);
        if (p < (uint64_t)plain || p >= (uint64_t)plain + plainBytes) return p;
    }
    return 0;
}

static void fill() {
    size_t n = rarely(10) ? 0 : 1 + below(200);
    uint64_t p = device(4 * n);
    if (rarely(12)) p += 1 + below(2);
    switch (below(7)) {
    case 0:
        call("cuMemsetD8 %s %zu", WHERE(p), n), ended(cuMemsetD8(p, (unsigned char)below(256), n));
        break;
    case 1:
        call("cuMemsetD16 %s %zu", WHERE(p), n),
            ended(cuMemsetD16(p, (unsigned short)below(65536), n));
        break;
    case 2:
        call("cuMemsetD32 %s %zu", WHERE(p), n), ended(cuMemsetD32(p, below(1u << 31), n));
        break;
    case 3:
        call("cuMemsetD8Async %s %zu", WHERE(p), n), ended(cuMemsetD8Async(p, 3, n, stream));
        break;
    case 4:
        call("cuMemsetD32Async %s %zu", WHERE(p), n), ended(cuMemsetD32Async(p, 3, n, stream));
        break;
    default: {
        size_t width = rarely(10) ? 0 : 1 + below(20), height = rarely(10) ? 0 : 1 + below(3),
               pitch = rarely(12) ? pick({0u, 4u, 66u}) : 128;
        p = device(1024);
        unsigned size = 1u << below(3);
        call("cuMemsetD2D%u %s pitch %zu %zux%zu", size * 8, WHERE(p), pitch, width, height);
        ended(size == 1   ? cuMemsetD2D8(p, pitch, 7, width, height)
              : size == 2 ? cuMemsetD2D16(p, pitch, 7, width, height)
                          : cuMemsetD2D32(p, pitch, 7, width, height));
    }
    }
    cuStreamSynchronize(stream);
}

static void copy() {
    size_t n = rarely(10) ? 0 : 1 + below(1000);
    uint64_t d = device(n), s = device(n), a = place(n), b = place(n);
    char *h = plain + 4 * below(1000);
    switch (below(10)) {
    case 0:
        call("cuMemcpyHtoD %s %zu", WHERE(d), n),
            ended(cuMemcpyHtoD(d, rarely(30) ? nullptr : h, n));
        break;
    case 1:
        call("cuMemcpyDtoH %s %zu", WHERE(d), n),
            ended(cuMemcpyDtoH(rarely(30) ? nullptr : h, d, n));
        break;
    case 2:
        call("cuMemcpyDtoD %s %s %zu", WHERE(d), WHERE(s), n), ended(cuMemcpyDtoD(d, s, n));
        break;
    case 3: call("cuMemcpy %s %s %zu", WHERE(a), WHERE(b), n), ended(cuMemcpy(a, b, n)); break;
    case 4:
        call("cuMemcpyAsync %s %s %zu", WHERE(a), WHERE(b), n),
            ended(cuMemcpyAsync(a, b, n, stream));
        break;
    case 5:
        call("cuMemcpyHtoDAsync %s %zu", WHERE(d), n), ended(cuMemcpyHtoDAsync(d, h, n, stream));
        break;
    case 6: {
        CUcontext x = rarely(10) ? nullptr : context, y = rarely(10) ? nullptr : context;
        call("cuMemcpyPeer %s %s %s %s %zu", WHERE(d), NM(x), WHERE(s), NM(y), n),
            ended(cuMemcpyPeer(d, x, s, y, n));
        break;
    }
    default: {
        CUDA_MEMCPY3D p;
        memset(&p, 0, sizeof p);
        auto side = [&](CUmemorytype *type, CUdeviceptr *dev, void *host) {
            *type = rarely(25) ? CUmemorytype(pick({0, 5})) : CUmemorytype(pick({1, 2, 4}));
            if (*type == CU_MEMORYTYPE_HOST)
                *(void **)host = rarely(25) ? nullptr : plain + 4 * below(1000);
            else *dev = device(4096);
        };
        side(&p.srcMemoryType, &p.srcDevice, &p.srcHost),
            side(&p.dstMemoryType, &p.dstDevice, &p.dstHost);
        p.WidthInBytes = rarely(12) ? 0 : 1 + below(128), p.Height = rarely(12) ? 0 : 1 + below(3),
        p.Depth = rarely(12) ? 0 : 1 + below(2);
        p.srcPitch = rarely(8) ? pick({0u, 4u}) : 128,
        p.dstPitch = rarely(8) ? pick({0u, 4u}) : 128;
        p.srcHeight = rarely(8) ? below(2) : 4, p.dstHeight = rarely(8) ? below(2) : 4;
        if (rarely(8)) p.srcXInBytes = 4;
        if (rarely(8)) p.dstY = 1;
        bool flat = rarely(2);
        if (flat) {
            CUDA_MEMCPY2D q;
            memset(&q, 0, sizeof q);
            q.srcMemoryType = p.srcMemoryType, q.srcDevice = p.srcDevice, q.srcHost = p.srcHost,
            q.srcPitch = p.srcPitch, q.srcXInBytes = p.srcXInBytes;
            q.dstMemoryType = p.dstMemoryType, q.dstDevice = p.dstDevice, q.dstHost = p.dstHost,
            q.dstPitch = p.dstPitch, q.dstY = p.dstY;
            q.WidthInBytes = p.WidthInBytes, q.Height = p.Height;
            call("cuMemcpy2D %d %s %d %s %zux%zu pitch %zu %zu at %zu %zu", int(p.srcMemoryType),
                 WHERE(p.srcDevice), int(p.dstMemoryType), WHERE(p.dstDevice), p.WidthInBytes,
                 p.Height, p.srcPitch, p.dstPitch, p.srcXInBytes, p.dstY);
            ended(rarely(3) ? cuMemcpy2DUnaligned(&q) : cuMemcpy2D(rarely(40) ? nullptr : &q));
            break;
        }
        call("cuMemcpy3D %d %s %d %s %zux%zux%zu pitch %zu %zu height %zu %zu at %zu %zu",
             int(p.srcMemoryType),
             WHERE(p.srcMemoryType == 1 ? (CUdeviceptr)p.srcHost : p.srcDevice),
             int(p.dstMemoryType),
             WHERE(p.dstMemoryType == 1 ? (CUdeviceptr)p.dstHost : p.dstDevice), p.WidthInBytes,
             p.Height, p.Depth, p.srcPitch, p.dstPitch, p.srcHeight, p.dstHeight, p.srcXInBytes,
             p.dstY);
        ended(cuMemcpy3D(rarely(40) ? nullptr : &p));
    }
    }
    cuStreamSynchronize(stream);
}

// Pools.
static void pool() {
    CUmemoryPool p = pools.empty() || rarely(20) ? nullptr : pick(pools);
    int id = rarely(10) ? pick({0, 9, 50}) : 1 + (int)below(8);
    cuuint64_t v = 99;
    switch (below(8)) {
    case 0: {
        if (pools.size() > 3) return;
        CUmemPoolProps props;
        memset(&props, 0, sizeof props);
        props.allocType = CUmemAllocationType(rarely(15) ? 0 : 1);
        props.handleTypes = CUmemAllocationHandleType(rarely(6) ? pick({1, 2}) : 0);
        props.location.type = CUmemLocationType(rarely(15) ? pick({0, 7}) : 1),
        props.location.id = rarely(15) ? 9 : 0;
        props.maxSize = rarely(6) ? 1u << 25 : 0;
        call("cuMemPoolCreate {%d %d %d %d %zu}", int(props.allocType), int(props.handleTypes),
             int(props.location.type), props.location.id, props.maxSize);
        if (ended(cuMemPoolCreate(rarely(30) ? nullptr : &p, rarely(30) ? nullptr : &props)) ==
            CUDA_SUCCESS)
            pools.push_back(named(p, "pool"));
        break;
    }
    case 1:
        if (!rarely(4)) return;
        if (p == usual && !rarely(3)) return;
        for (const Memory &m : ranges)
            if (m.kind == 'a') return;
        call("cuMemPoolDestroy %s", NM(p));
        if (ended(cuMemPoolDestroy(p)) == CUDA_SUCCESS)
            names.erase(p), pools.erase(std::find(pools.begin(), pools.end(), p));
        break;
    case 2: {
        call("cuMemPoolGetAttribute %s %d", NM(p), id);
        // The driver decides how much a pool takes at a time.
        if (ended(cuMemPoolGetAttribute(p, CUmemPool_attribute(id), rarely(30) ? nullptr : &v)) ==
                CUDA_SUCCESS &&
            id < 5)
            also("%llu", (unsigned long long)(id <= 3 ? unsigned(v) : v));
        break;
    }
    case 3:
        v = rarely(3) ? pick({1ull, 1ull << 20, ~0ull}) : 0;
        if (p == usual) return; // it would keep them
        call("cuMemPoolSetAttribute %s %d %llu", NM(p), id, (unsigned long long)v);
        ended(cuMemPoolSetAttribute(p, CUmemPool_attribute(id), &v));
        break;
    case 4: call("cuMemPoolTrimTo %s", NM(p)), ended(cuMemPoolTrimTo(p, below(1000))); break;
    case 5: {
        CUmemAccessDesc a;
        memset(&a, 0, sizeof a);
        a.location.type = CUmemLocationType(rarely(10) ? pick({0, 2, 7}) : 1),
        a.location.id = rarely(10) ? 9 : 0;
        a.flags = CUmemAccess_flags(rarely(4) ? pick({0, 1, 2, 7}) : 3);
        size_t n = rarely(10) ? 0 : 1;
        call("cuMemPoolSetAccess %s {%d %d %d} %zu", NM(p), int(a.location.type), a.location.id,
             int(a.flags), n);
        ended(cuMemPoolSetAccess(p, rarely(30) ? nullptr : &a, n));
        break;
    }
    case 6: {
        CUmemLocation l;
        CUmemAccess_flags f = CUmemAccess_flags(99);
        memset(&l, 0, sizeof l);
        l.type = CUmemLocationType(rarely(10) ? pick({0, 2, 7}) : 1), l.id = rarely(10) ? 9 : 0;
        call("cuMemPoolGetAccess %s {%d %d}", NM(p), int(l.type), l.id);
        if (ended(cuMemPoolGetAccess(rarely(30) ? nullptr : &f, p, rarely(30) ? nullptr : &l)) ==
            CUDA_SUCCESS)
            also("%d", int(f));
        break;
    }
    default: {
        CUmemoryPool q = nullptr;
        int d = rarely(10) ? 9 : 0;
        switch (below(3)) {
        case 0:
            call("cuDeviceGetDefaultMemPool %d", d);
            if (ended(cuDeviceGetDefaultMemPool(rarely(30) ? nullptr : &q, d)) == CUDA_SUCCESS)
                also("%s", NM(q));
            break;
        case 1:
            call("cuDeviceGetMemPool %d", d);
            if (ended(cuDeviceGetMemPool(rarely(30) ? nullptr : &q, d)) == CUDA_SUCCESS)
                also("%s", NM(q));
            break;
        default: call("cuDeviceSetMemPool %d %s", d, NM(p)), ended(cuDeviceSetMemPool(d, p));
        }
    }
    }
}

// Managed memory.
static void managed() {
    typedef CUresult Advise(CUdeviceptr, size_t, int, CUdevice);
    typedef CUresult Prefetch(CUdeviceptr, size_t, CUdevice, CUstream);
    static auto advise = get<Advise>("cuMemAdvise", 8000);
    static auto prefetch = get<Prefetch>("cuMemPrefetchAsync", 8000);
    std::vector<Memory> own;
    for (const Memory &m : ranges)
        if (m.kind == 'm') own.push_back(m);
    Memory m = own.empty() || rarely(15) ? (ranges.empty() ? Memory{'m', 0, 100} : pick(ranges))
                                         : pick(own);
    uint64_t at = m.base + (rarely(4) ? below((unsigned)m.bytes) : 0);
    size_t n = rarely(12) ? pick({size_t(0), m.bytes + 8192}) : m.bytes - (at - m.base);
    int on = rarely(4) ? pick({-1, -2, 9}) : 0;
    switch (below(4)) {
    case 0: {
        int advice = rarely(8) ? pick({0, 7, 50}) : 1 + (int)below(6);
        call("cuMemAdvise %s %zu %d %d", WHERE(at), n, advice, on),
            ended(advise(at, n, advice, on));
        break;
    }
    case 1:
        call("cuMemPrefetchAsync %s %zu %d", WHERE(at), n, on), ended(prefetch(at, n, on, stream));
        break;
    case 2: {
        int id = rarely(8) ? pick({0, 9, 50}) : 1 + (int)below(8);
        int v[4] = {99, 99, 99, 99};
        size_t size = rarely(6) ? pick({size_t(0), size_t(1), size_t(8), size_t(16)}) : 4;
        call("cuMemRangeGetAttribute %s %zu %d size %zu", WHERE(at), n, id, size);
        if (ended(cuMemRangeGetAttribute(rarely(30) ? nullptr : v, size, CUmem_range_attribute(id),
                                         at, n)) == CUDA_SUCCESS)
            also("%d %d", v[0], v[1]);
        break;
    }
    default: {
        int a = 99, b = 99;
        void *data[] = {&a, &b};
        size_t sizes[] = {4, rarely(10) ? size_t(3) : 4};
        CUmem_range_attribute id[] = {CUmem_range_attribute(1 + below(4)),
                                      CUmem_range_attribute(1 + below(4))};
        if (id[0] == 3 || id[1] == 3) return;
        size_t count = rarely(10) ? 0 : 2;
        call("cuMemRangeGetAttributes %s %zu %d %d size %zu count %zu", WHERE(at), n, int(id[0]),
             int(id[1]), sizes[1], count);
        if (ended(cuMemRangeGetAttributes(data, sizes, id, count, at, n)) == CUDA_SUCCESS)
            also("%d %d", a, b);
    }
    }
    cuStreamSynchronize(stream);
}

// Arrays.
static void array() {
    CUarray a = arrays.empty() || rarely(15) ? nullptr : pick(arrays);
    CUDA_ARRAY3D_DESCRIPTOR d;
    memset(&d, 0, sizeof d);
    switch (below(5)) {
    case 0:
    case 1: {
        if (arrays.size() > 4) return;
        d.Width = rarely(15) ? pick({size_t(0), size_t(1) << 20}) : 1 + below(64),
        d.Height = rarely(3) ? 0 : 1 + below(32), d.Depth = rarely(2) ? 0 : 1 + below(8);
        d.Format = CUarray_format(rarely(12) ? pick({0x777, 0x999})
                                             : pick({1, 2, 3, 8, 9, 10, 0x10, 0x20}));
        d.NumChannels = rarely(12) ? pick({0u, 3u, 8u}) : 1u << below(3);
        d.Flags = rarely(3) ? pick({1u, 2u, 4u, 5u}) : 0;
        call("cuArray3DCreate {%zux%zux%zu %x %u %x}", d.Width, d.Height, d.Depth,
             unsigned(d.Format), d.NumChannels, d.Flags);
        if (ended(cuArray3DCreate(rarely(30) ? nullptr : &a, rarely(30) ? nullptr : &d)) ==
            CUDA_SUCCESS)
            arrays.push_back(named(a, "array"));
        break;
    }
    case 2:
        call("cuArray3DGetDescriptor %s", NM(a));
        if (ended(cuArray3DGetDescriptor(rarely(30) ? nullptr : &d, a)) == CUDA_SUCCESS)
            also("{%zux%zux%zu %x %u %x}", d.Width, d.Height, d.Depth, unsigned(d.Format),
                 d.NumChannels, d.Flags);
        break;
    case 3: {
        CUDA_ARRAY_DESCRIPTOR e;
        call("cuArrayGetDescriptor %s", NM(a));
        if (ended(cuArrayGetDescriptor(rarely(30) ? nullptr : &e, a)) == CUDA_SUCCESS)
            also("{%zux%zu %x %u}", e.Width, e.Height, unsigned(e.Format), e.NumChannels);
        break;
    }
    default:
        if (!rarely(3)) return;
        call("cuArrayDestroy %s", NM(a));
        if (ended(cuArrayDestroy(a)) == CUDA_SUCCESS)
            names.erase(a), arrays.erase(std::find(arrays.begin(), arrays.end(), a));
    }
}

static void sequence() {
    made = 0;
    for (int i = 0; i < 4; i++) allocate();
    for (int i = 0; i < 60; i++) {
        unsigned k = below(100);
        if (k < 18) allocate();
        else if (k < 26) give();
        else if (k < 36) fill();
        else if (k < 48) copy();
        else if (k < 68) virtualMemory();
        else if (k < 80) pool();
        else if (k < 90) managed();
        else array();
    }
    cuStreamSynchronize(stream);
    for (const Memory &m : ranges) {
        regions.erase(m.base);
        if (m.kind == 'h') cuMemFreeHost((void *)m.base);
        else if (m.kind == 'r') cuMemHostUnregister((void *)m.base);
        else cuMemFree(m.base);
    }
    for (const Mapping &m : mappings) {
        if (m.used) cuMemUnmap(m.base, m.used);
        cuMemAddressFree(m.base, m.bytes), regions.erase(m.base);
    }
    for (CUmemGenericAllocationHandle h : handles)
        cuMemRelease(h), names.erase((void *)(uintptr_t)h);
    cuDeviceSetMemPool(0, usual);
    for (CUmemoryPool p : pools)
        if (p != usual) cuMemPoolDestroy(p), names.erase(p);
    for (CUarray a : arrays) cuArrayDestroy(a), names.erase(a);
    ranges.clear(), mappings.clear(), handles.clear(), arrays.clear();
    pools.assign(1, usual);
}

int main(int argc, char **argv) {
    openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuDeviceGetDefaultMemPool(&usual, 0));
    plain = (char *)aligned_alloc(4096, plainBytes);
    memset(plain, 1, plainBytes);
    region(plain, plainBytes, "plain");
    names[context] = "context", names[usual] = "default pool";
    pools.push_back(usual);
    return sequences(argc, argv, 20, sequence);
}
