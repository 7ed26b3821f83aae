// SPDX-License-Identifier: Apache-2.0
// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of each kind of memory: read, set and read back.
#include "driver.h"
#include <vector>

static const CUpointer_attribute synced = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;

// get prints the attribute, by both functions. Bytes that aren't written would show.
static void get(CUdeviceptr p) {
    int one = -1, many = -1;
    CUpointer_attribute attribute = synced;
    void *data = &many;
    CUresult first = cuPointerGetAttribute(&one, synced, p);
    CUresult second = cuPointerGetAttributes(1, &attribute, &data, p);
    printf("  %s %d, %s %d\n", name(first), one, name(second), many);
}

static void set(CUdeviceptr p, unsigned value) {
    printf("  set %u: %s\n", value, name(cuPointerSetAttribute(&value, synced, p)));
    get(p);
}

static void all(const char *what, CUdeviceptr p) {
    printf("%s:\n", what);
    get(p);
    set(p, 1);
    set(p, 0);
    set(p, 1);
}

// mapped maps memory that was made without an address.
static CUdeviceptr mapped(CUdevice device, size_t *bytes) {
    CUmemAllocationProp prop = {};
    CUmemAccessDesc access = {};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECKCU(cuMemGetAllocationGranularity(bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECKCU(cuMemCreate(&handle, *bytes, &prop, 0));
    CHECKCU(cuMemAddressReserve(&at, *bytes, 0, 0, 0));
    CHECKCU(cuMemMap(at, *bytes, 0, handle, 0));
    CHECKCU(cuMemSetAccess(at, *bytes, &access, 1));
    CHECKCU(cuMemRelease(handle));
    return at;
}

// errors shows which arguments are refused, and that copies still work on memory that is synced.
static void errors(CUdeviceptr device) {
    unsigned value = 1, word = 0x1234, back = 0;
    printf("errors:\n");
    REPORTCU(cuPointerGetAttribute(nullptr, synced, device));
    REPORTCU(cuPointerSetAttribute(nullptr, synced, device));
    REPORTCU(cuPointerSetAttribute(&value, synced, 0));
    REPORTCU(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    REPORTCU(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, device));
    CHECKCU(cuMemcpyHtoD(device, &word, sizeof word));
    CHECKCU(cuMemcpyDtoH(&back, device, sizeof back));
    printf("a copy: %#x\n", back);
}

int main() {
    CUdevice device = openDevice();
    CUdeviceptr memory, managed, at;
    void *pinned;
    size_t bytes;
    std::vector<char> own(20000), plain(100);
    CHECKCU(cuMemAlloc(&memory, 5000));
    CHECKCU(cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
    CHECKCU(cuMemAllocHost(&pinned, 5000));
    CHECKCU(cuMemHostRegister(own.data(), own.size(), 0));
    at = mapped(device, &bytes);
    all("device", memory);
    all("inside device", memory + 4999);
    all("managed", managed);
    all("pinned", (CUdeviceptr)pinned);
    all("registered", (CUdeviceptr)own.data());
    all("mapped", at);
    errors(memory);
    CHECKCU(cuMemUnmap(at, bytes));
    CHECKCU(cuMemAddressFree(at, bytes));
    CHECKCU(cuMemHostUnregister(own.data()));
    CHECKCU(cuMemFreeHost(pinned));
    CHECKCU(cuMemFree(managed));
    CHECKCU(cuMemFree(memory));
}
