// SPDX-License-Identifier: Apache-2.0
// Random questions about pointers of every kind of memory, right and wrong.
#include "randomcalls.h"

static __device__ unsigned global[64];

struct Memory {
    std::string kind;
    uint64_t base, bytes;
    CUmemGenericAllocationHandle handle;
};

static std::vector<Memory> ranges;
static CUcontext context;
static CUstream stream;
static CUmemoryPool pool;
static unsigned made;
static char plain[4096];
static const size_t granule = 2 << 20;

static void enter(const char *kind, uint64_t base, uint64_t bytes,
                  CUmemGenericAllocationHandle handle = 0) {
    std::string s = kind + std::to_string(made++);
    ranges.push_back({kind, base, bytes, handle});
    region(base, bytes, s);
    also("%s", s.c_str());
}

static CUmemAllocationProp properties() {
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}

static void make() {
    CUdeviceptr d = 0;
    void *h = nullptr;
    size_t bytes = 1 + below(10000), pitch;
    if (ranges.size() > 12) return;
    switch (below(8)) {
    case 0:
        call("cuMemAlloc %zu", bytes);
        if (ended(cuMemAlloc(&d, bytes)) == CUDA_SUCCESS) enter("device", d, bytes);
        break;
    case 1:
        call("cuMemAllocPitch %zu", bytes);
        if (ended(cuMemAllocPitch(&d, &pitch, bytes, 3, 4)) == CUDA_SUCCESS)
            enter("pitched", d, 3 * pitch);
        break;
    case 2: {
        unsigned flags = below(8);
        call("cuMemHostAlloc %zu %u", bytes, flags);
        if (ended(cuMemHostAlloc(&h, bytes, flags)) == CUDA_SUCCESS)
            enter("host", (uint64_t)h, bytes);
        break;
    }
    case 3: {
        unsigned flags = below(4);
        h = aligned_alloc(4096, 16384);
        call("cuMemHostRegister %u", flags);
        if (ended(cuMemHostRegister((char *)h + 100, bytes, flags)) == CUDA_SUCCESS)
            enter("registered", (uint64_t)h + 100, bytes);
        break;
    }
    case 4: {
        unsigned flags = 1 + below(2);
        call("cuMemAllocManaged %zu %u", bytes, flags);
        if (ended(cuMemAllocManaged(&d, bytes, flags)) == CUDA_SUCCESS) enter("managed", d, bytes);
        break;
    }
    case 5:
        call("cuMemAllocAsync %zu", bytes);
        if (ended(cuMemAllocAsync(&d, bytes, stream)) == CUDA_SUCCESS) enter("async", d, bytes);
        break;
    case 6:
        call("cuMemAllocFromPoolAsync %zu", bytes);
        if (ended(cuMemAllocFromPoolAsync(&d, bytes, pool, stream)) == CUDA_SUCCESS)
            enter("pooled", d, bytes);
        break;
    default: {
        CUmemAllocationProp p = properties();
        CUmemGenericAllocationHandle m;
        CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (rarely(3)) p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        if (rarely(4)) access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        CHECKCU(cuMemCreate(&m, granule, &p, 0));
        CHECKCU(cuMemAddressReserve(&d, 2 * granule, 0, 0, 0));
        CHECKCU(cuMemMap(d, granule, 0, m, 0));
        bool set = !rarely(4);
        if (set) CHECKCU(cuMemSetAccess(d, granule, &access, 1));
        call("mapped %d access %d %d", int(p.requestedHandleTypes), set, int(access.flags));
        enter("mapped", d, 2 * granule, m);
    }
    }
}

static CUresult give(const Memory &m) {
    if (m.kind == "host") return cuMemFreeHost((void *)m.base);
    if (m.kind == "registered") {
        CUresult r = cuMemHostUnregister((void *)m.base);
        free((void *)(m.base - 100));
        return r;
    }
    if (m.kind == "async" || m.kind == "pooled") {
        CUresult r = cuMemFreeAsync(m.base, stream);
        CHECKCU(cuStreamSynchronize(stream));
        return r;
    }
    if (m.kind == "mapped") {
        CHECKCU(cuMemUnmap(m.base, granule));
        CHECKCU(cuMemAddressFree(m.base, 2 * granule));
        return cuMemRelease(m.handle);
    }
    return cuMemFree(m.base);
}

static void end() {
    if (ranges.size() < 3) return;
    size_t i = below((unsigned)ranges.size());
    Memory m = ranges[i];
    call("end of %s", WHERE(m.base));
    ended(give(m));
    regions.erase(m.base);
    ranges.erase(ranges.begin() + (long)i);
}

static CUdeviceptr pointer() {
    if (rarely(10)) return pick({(CUdeviceptr)0, (CUdeviceptr)plain, (CUdeviceptr)plain + 100});
    if (rarely(15)) {
        void *g;
        CHECK(cudaGetSymbolAddress(&g, global));
        return (CUdeviceptr)g + 4 * below(4);
    }
    if (ranges.empty()) return 0;
    const Memory &m = pick(ranges);
    switch (below(6)) {
    case 0: return m.base + m.bytes - 1;
    case 1: return m.base + below((unsigned)m.bytes);
    default: return m.base;
    }
}

static void showValue(int attribute, const uint64_t *value) {
    uint64_t v = *value;
    switch (attribute) {
    case 1:
    case 17: return also("%s", NM((void *)v));
    case 3:
    case 4:
    case 11: return also("%s", WHERE(v));
    case 7:
    case 20: return also("id");
    // A guest gets other answers about other devices' access, decompression, and the size of the
    // blocks of memory.
    case 15:
    case 18:
    case 19:
    case 21: return also("-");
    default: return also("%llx", (unsigned long long)v);
    }
}

static int anyAttribute() {
    int a = rarely(8) ? pick({-1, 0, 22, 30, 1000}) : 1 + (int)below(21);
    return a == 5 ? 4 : a;
}

static void one() {
    CUdeviceptr p = pointer();
    int id = anyAttribute();
    uint64_t v[4] = {0xcccccccccccccccc, 0xcccccccccccccccc, 0, 0};
    call("cuPointerGetAttribute %d %s", id, WHERE(p));
    if (ended(cuPointerGetAttribute(rarely(40) ? nullptr : v, CUpointer_attribute(id), p)) ==
        CUDA_SUCCESS)
        showValue(id, v);
}

static void several() {
    CUdeviceptr p = pointer();
    CUpointer_attribute id[5];
    uint64_t v[5][4];
    void *data[5];
    unsigned n = rarely(15) ? 0 : 1 + below(5);
    memset(v, 0xcc, sizeof v);
    call("cuPointerGetAttributes %s", WHERE(p));
    for (unsigned i = 0; i < n; i++) {
        id[i] = CUpointer_attribute(rarely(3) ? anyAttribute() : pick({2, 3, 4, 8, 9, 11, 12}));
        data[i] = rarely(60) ? nullptr : v[i];
        also("%d%s", int(id[i]), data[i] ? "" : "null");
    }
    if (ended(cuPointerGetAttributes(n, rarely(40) ? nullptr : id, rarely(40) ? nullptr : data,
                                     p)) != CUDA_SUCCESS)
        return;
    for (unsigned i = 0; i < n; i++)
        showValue(id[i], v[i]);
}

static void set() {
    CUdeviceptr p = pointer();
    int id = rarely(4) ? anyAttribute() : CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    unsigned v = rarely(8) ? pick({2u, 256u, ~0u}) : below(2);
    uint64_t got = 0xcccccccccccccccc;
    call("cuPointerSetAttribute %d %u %s", id, v, WHERE(p));
    if (ended(cuPointerSetAttribute(rarely(40) ? nullptr : &v, CUpointer_attribute(id), p)) !=
        CUDA_SUCCESS)
        return;
    call("  read back");
    if (ended(cuPointerGetAttribute(&got, CUpointer_attribute(id), p)) == CUDA_SUCCESS)
        also("%llx", (unsigned long long)got);
}

static void range() {
    CUdeviceptr p = pointer(), base = 1;
    size_t bytes = 1;
    bool a = rarely(5), b = rarely(5);
    call("cuMemGetAddressRange %s%s%s", WHERE(p), a ? " no base" : "", b ? " no size" : "");
    if (ended(cuMemGetAddressRange(a ? nullptr : &base, b ? nullptr : &bytes, p)) == CUDA_SUCCESS)
        also("%s %zu", base == 1 ? "-" : WHERE(base), bytes);
}

static void runtime() {
    CUdeviceptr p = pointer();
    cudaPointerAttributes a;
    call("cudaPointerGetAttributes %s", WHERE(p));
    cudaError_t e = cudaPointerGetAttributes(&a, (void *)p);
    also("%s", cudaGetErrorName(e));
    if (!e)
        also("%d %d %s %s", int(a.type), a.device, WHERE(a.devicePointer), WHERE(a.hostPointer));
    (void)cudaGetLastError();
}

static std::string of(CUdeviceptr p) {
    for (const Memory &m : ranges)
        if (p >= m.base && p - m.base < m.bytes) return m.kind;
    return "";
}

static void hosts() {
    CUdeviceptr p = pointer(), d = 0;
    unsigned flags = 99;
    switch (below(4)) {
    case 0:
        if (of(p) == "mapped") return; // the driver takes it for the host's
        call("cuMemHostGetFlags %s", WHERE(p));
        // Small allocations share a larger one, and the driver gives its PORTABLE (1) for each.
        if (ended(cuMemHostGetFlags(rarely(30) ? nullptr : &flags, (void *)p)) == CUDA_SUCCESS)
            also("%u", flags & ~1u);
        break;
    case 1:
        if (of(p) == "mapped") return;
        flags = rarely(10);
        call("cuMemHostGetDevicePointer %s %u", WHERE(p), flags);
        if (ended(cuMemHostGetDevicePointer(rarely(30) ? nullptr : &d, (void *)p, flags)) ==
            CUDA_SUCCESS)
            also("%s", WHERE(d));
        break;
    case 2: {
        CUmemAllocationProp q;
        CUmemGenericAllocationHandle m = 0;
        call("cuMemRetainAllocationHandle %s", WHERE(p));
        if (ended(cuMemRetainAllocationHandle(rarely(30) ? nullptr : &m, (void *)p)) !=
            CUDA_SUCCESS)
            break;
        for (const Memory &x : ranges)
            if (x.kind == "mapped" && x.handle == m) also("of %s", WHERE(x.base));
        memset(&q, 0x33, sizeof q);
        call("cuMemGetAllocationPropertiesFromHandle");
        if (ended(cuMemGetAllocationPropertiesFromHandle(rarely(30) ? nullptr : &q, m)) ==
            CUDA_SUCCESS)
            also("%d %d %d %d %u %u", int(q.type), int(q.requestedHandleTypes),
                 int(q.location.type), q.location.id, q.allocFlags.compressionType,
                 q.allocFlags.gpuDirectRDMACapable);
        CHECKCU(cuMemRelease(m));
        break;
    }
    default: {
        CUmemLocation l;
        unsigned long long access = 99;
        memset(&l, 0, sizeof l);
        l.type = CUmemLocationType(rarely(8) ? pick({0, 2, 9}) : 1), l.id = rarely(10) ? 7 : 0;
        call("cuMemGetAccess %s %d %d", WHERE(p), int(l.type), l.id);
        if (ended(cuMemGetAccess(rarely(30) ? nullptr : &access, &l, p)) == CUDA_SUCCESS)
            also("%llu", access);
    }
    }
}

static void sequence() {
    made = 0;
    for (int i = 0; i < 5; i++) make();
    for (int i = 0; i < 60; i++) {
        unsigned k = below(100);
        if (k < 10) make();
        else if (k < 15) end();
        else if (k < 50) one();
        else if (k < 65) several();
        else if (k < 75) set();
        else if (k < 83) range();
        else if (k < 88) runtime();
        else hosts();
    }
    for (const Memory &m : ranges) give(m), regions.erase(m.base);
    ranges.clear();
}

int main(int argc, char **argv) {
    openDevice();
    CHECKCU(cuCtxGetCurrent(&context));
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECKCU(cuMemPoolCreate(&pool, &props));
    CUmemoryPool usual;
    CHECKCU(cuDeviceGetDefaultMemPool(&usual, 0));
    void *g;
    CHECK(cudaGetSymbolAddress(&g, global));
    region(plain, sizeof plain, "plain"), region(g, sizeof global, "global");
    names[context] = "context", names[pool] = "pool", names[usual] = "default pool";
    return sequences(argc, argv, 20, sequence);
}
