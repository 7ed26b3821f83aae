// SPDX-License-Identifier: Apache-2.0
// Memory goes from process to process as a descriptor: one makes it, another maps it, and a third,
// which never calls CUDA, keeps what neither has any more. Everything is random, and what must not
// change is looked at.
#include "driver.h"
#include "processes.h"
#include <fcntl.h>
#include <sys/syscall.h>
#include <vector>

static CUdevice device;
static CUmemAllocationProp prop;
static CUmemAccessDesc readWrite;
static size_t granularity;

static const size_t pieces = 2;   // of the granularity, in a region
static const size_t guard = 4096; // bytes at both ends of a region that only its maker writes

enum { together = 1, released, orphaned, lonely };

static __global__ void mix(unsigned *p, size_t n, unsigned key) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        p[i] = (p[i] ^ key) * 2654435761u;
}

static void begin() {
    device = openDevice();
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    readWrite.location = prop.location;
    readWrite.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECKCU(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static std::vector<unsigned char> random(uint64_t seed, size_t n) {
    std::vector<unsigned char> v(n);
    Random r = {seed};
    for (auto &c : v) c = r.next();
    return v;
}

// Region is memory at an address of this process, and what is in it.
struct Region {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t size;
    std::vector<unsigned char> want;

    void map() {
        size = pieces * granularity;
        CHECKCU(cuMemAddressReserve(&at, size, 0, 0, 0));
        CHECKCU(cuMemMap(at, size, 0, handle, 0));
        CHECKCU(cuMemSetAccess(at, size, &readWrite, 1));
    }
    void unmap() {
        CHECKCU(cuMemUnmap(at, size));
        CHECKCU(cuMemAddressFree(at, size));
    }
    void release() { CHECKCU(cuMemRelease(handle)); }
    void make(uint64_t seed) {
        CHECKCU(cuMemCreate(&handle, pieces * granularity, &prop, 0));
        map();
        want = random(seed, size);
        CHECKCU(cuMemcpyHtoD(at, want.data(), size));
    }
    int file() {
        int fd = -1;
        CHECKCU(
            cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        REQUIRE(fd >= 0);
        return fd;
    }
    void open(int fd) {
        CHECKCU(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        map();
    }
    void verify() {
        std::vector<unsigned char> got(size);
        CHECKCU(cuMemcpyDtoH(got.data(), at, size));
        REQUIRE(got == want);
    }
    // change writes between the guards: a part from the host, a part with a kernel.
    void change(uint64_t seed) {
        auto part = random(seed, size / 2 - guard);
        CHECKCU(cuMemcpyHtoD(at + guard, part.data(), part.size()));
        size_t n = (size / 2 - guard) / 4;
        mix<<<32, 256>>>((unsigned *)(at + size / 2), n, unsigned(seed));
        CHECK(cudaGetLastError());
        CHECKCU(cuCtxSynchronize());
        expect(seed);
    }
    // expect is change, as this process hears of it.
    void expect(uint64_t seed) {
        auto part = random(seed, size / 2 - guard);
        memcpy(want.data() + guard, part.data(), part.size());
        unsigned *p = (unsigned *)(want.data() + size / 2);
        for (size_t i = 0; i < (size / 2 - guard) / 4; i++)
            p[i] = (p[i] ^ unsigned(seed)) * 2654435761u;
    }
};

// maker makes all memory, and ends first.
static void maker(Peer broker) {
    begin();
    int supported = 0;
    CHECKCU(cuDeviceGetAttribute(
        &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
    printf("POSIX file descriptors supported: %d\n", supported);
    Region before, shared, after, mine;
    before.make(10);
    shared.make(together);
    after.make(11);
    int fd = shared.file();
    broker.send(together, fd);

    // One's own memory, by its descriptor, at another address.
    mine.open(fd);
    close(fd);
    mine.want = shared.want;
    mine.verify();
    mine.change(20);
    shared.expect(20);
    shared.verify();
    mine.unmap();
    mine.release();
    shared.verify();
    broker.say('a');

    broker.hear('b');
    shared.expect(21);
    shared.verify();
    before.verify();
    after.verify();
    shared.change(22);
    broker.say('c');

    // The other one writes to it while this one's handle is gone: the mapping keeps it.
    shared.release();
    broker.hear('d');
    shared.expect(23);
    shared.verify();
    before.verify();
    after.verify();

    // Neither handle nor mapping: the descriptor keeps it.
    Region gone;
    gone.make(released);
    fd = gone.file();
    gone.release();
    gone.unmap();
    broker.send(released, fd);
    close(fd);
    // Nothing of this process.
    Region last, alone;
    last.make(orphaned);
    fd = last.file();
    broker.send(orphaned, fd);
    alone.make(lonely);
    int second = alone.file();
    broker.send(lonely, second);
    broker.send(second);
    broker.hear('g');
}

static void verifyOpened(Region &r, uint64_t seed) {
    r.want = random(seed, r.size);
    r.verify();
}

// user has descriptors only.
static void user(Peer broker) {
    begin();
    int what, fd = broker.receive(what);
    REQUIRE(what == together && fd >= 0);
    Region shared, again;
    shared.open(fd);
    again.open(fd);
    close(fd);
    CUmemAllocationProp told = {};
    CHECKCU(cuMemGetAllocationPropertiesFromHandle(&told, shared.handle));
    REQUIRE(told.type == prop.type && told.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE);
    REQUIRE(told.location.type == prop.location.type && told.location.id == device);
    broker.hear('a');
    shared.want = random(together, shared.size);
    shared.expect(20);
    shared.verify();
    shared.change(21);
    again.want = shared.want;
    again.verify();
    again.unmap();
    again.release();
    shared.verify();
    broker.say('b');
    broker.hear('c');
    shared.expect(22);
    shared.verify();
    shared.release();
    shared.change(23);
    broker.say('d');
    broker.hear('e'); // the maker is gone
    shared.verify();
    shared.change(24);
    shared.verify();

    Region other[3];
    for (int i = 0; i < 3; i++) {
        fd = broker.receive(what);
        REQUIRE(what == released + i && fd >= 0);
        other[i].open(fd);
        verifyOpened(other[i], what);
        close(fd);
        other[i].change(30 + i);
        other[i].verify();
    }
    shared.verify();
    // What was imported isn't exported again.
    for (int i = 0; i < 3; i++) {
        REQUIRE(cuMemExportToShareableHandle(&fd, other[i].handle,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0) == CUDA_ERROR_INVALID_VALUE);
        other[i].unmap();
        other[i].release();
    }
    shared.unmap();
}

// refuses says that a call must fail, however.
#define REFUSES(call) REQUIRE((call) != CUDA_SUCCESS)

static void wrong(Peer broker) {
    begin();
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationHandleType posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    int closed = dup(0), null = open("/dev/null", O_RDWR), ends[2];
    REQUIRE(pipe(ends) == 0);
    close(closed);
    for (int fd : {closed, null, ends[0], broker.socket, -1})
        REFUSES(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, posix));
    Region r;
    r.make(5);
    int fd = -1;
    REFUSES(cuMemExportToShareableHandle(&fd, 0, posix, 0));
    REFUSES(cuMemExportToShareableHandle(nullptr, r.handle, posix, 0));
    REFUSES(cuMemExportToShareableHandle(&fd, r.handle, posix, 1));
    REFUSES(cuMemExportToShareableHandle(&fd, r.handle, CU_MEM_HANDLE_TYPE_NONE, 0));
    REFUSES(cuMemExportToShareableHandle(&fd, r.handle, CU_MEM_HANDLE_TYPE_WIN32, 0));
    // Memory that wasn't made to be exported.
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    Region unshared;
    unshared.make(6);
    REFUSES(cuMemExportToShareableHandle(&fd, unshared.handle, posix, 0));
    prop.requestedHandleTypes = posix;
    REQUIRE(fd == -1);
    // A closed descriptor is of no use, but others of the same memory are.
    fd = r.file();
    int copy = dup(fd), other = r.file();
    close(fd);
    REFUSES(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, posix));
    for (int d : {copy, other}) {
        Region same;
        same.open(d);
        verifyOpened(same, 5);
        same.unmap();
        same.release();
        close(d);
    }
    r.verify();
    unshared.verify();
    // Memory comes back: more than there is, one after the other.
    size_t free, total, all = 0;
    CHECKCU(cuMemGetInfo(&free, &total));
    prop.requestedHandleTypes = posix;
    for (size_t size = total / 4 / granularity * granularity; all < 2 * total; all += size) {
        CHECKCU(cuMemCreate(&handle, size, &prop, 0));
        CHECKCU(cuMemExportToShareableHandle(&fd, handle, posix, 0));
        CHECKCU(cuMemRelease(handle));
        CHECKCU(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd, posix));
        close(fd);
        CHECKCU(cuMemRelease(handle));
    }
    broker.say('f');
}

// taken is a descriptor of another process, taken from it as PyTorch does; -1 where that isn't
// allowed.
static int taken(pid_t pid, int fd) {
    const long pidfdOpen = 434, pidfdGetfd = 438; // Linux 5.6
    int process = syscall(pidfdOpen, pid, 0);
    if (process < 0) return -1;
    int got = syscall(pidfdGetfd, process, fd, 0);
    close(process);
    return got;
}

int main() {
    Peer one = start(maker), other = start(user);
    int what, fd = one.receive(what);
    other.send(what, fd);
    close(fd);
    one.hear('a');
    other.say('a');
    other.hear('b');
    one.say('b');
    one.hear('c');
    other.say('c');
    other.hear('d');
    one.say('d');
    int kept[3];
    for (int i = 0; i < 3; i++) kept[i] = one.receive(what);
    int number;
    one.receive(number);
    fd = taken(one.pid, number);
    if (fd >= 0) { // in place of what was sent
        close(kept[2]);
        kept[2] = fd;
    }
    one.say('g');
    one.end();
    puts("the maker has ended");
    fflush(stdout);
    other.say('e');
    for (int i = 0; i < 3; i++) {
        other.send(released + i, kept[i]);
        close(kept[i]);
    }
    other.end();
    puts("its memory was there, and changed both ways");
    Peer third = start(wrong);
    third.hear('f');
    third.end();
    puts("what is no handle is refused, and memory comes back");
    return 0;
}
