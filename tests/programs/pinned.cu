// SPDX-License-Identifier: Apache-2.0
// Page-locked memory of every kind: asynchronous copies, kernels that read and write it in place,
// and registered memory that the program had before.
#include "check.h"
#include <cstring>
#include <sys/mman.h>

const int n = 70001;
const size_t size = n * sizeof(int);

__global__ void addOne(const int *in, int *out) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] + 1;
}

static void roundTrip(const char *what, int *host) {
    int *dev;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&dev, size));
    for (int i = 0; i < n; i++) host[i] = i * 3;
    CHECK(cudaMemcpyAsync(dev, host, size, cudaMemcpyHostToDevice, stream));
    addOne<<<32, 128, 0, stream>>>(dev, dev);
    CHECK(cudaMemcpyAsync(host, dev, size, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++) REQUIRE(host[i] == i * 3 + 1);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(dev));
    printf("%s: copied\n", what);
}

static void inPlace(const char *what, int *host) {
    int *mapped, *dev;
    CHECK(cudaHostGetDevicePointer(&mapped, host, 0));
    CHECK(cudaMalloc(&dev, size));
    for (int i = 0; i < n; i++) host[i] = i - 5;
    addOne<<<32, 128>>>(mapped, dev);
    addOne<<<32, 128>>>(dev, mapped);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) REQUIRE(host[i] == i - 3);
    for (int i = 0; i < n; i++) host[i] = -i;
    addOne<<<32, 128>>>(mapped, mapped);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++) REQUIRE(host[i] == 1 - i);
    CHECK(cudaFree(dev));
    printf("%s: used in place, %s pointer on the device\n", what,
           mapped == host ? "same" : "another");
}

int main() {
    int *host;
    CHECK(cudaMallocHost(&host, size));
    roundTrip("cudaMallocHost", host);
    inPlace("cudaMallocHost", host);
    CHECK(cudaFreeHost(host));

    for (unsigned flags : {unsigned(cudaHostAllocDefault), unsigned(cudaHostAllocPortable),
                           unsigned(cudaHostAllocMapped), unsigned(cudaHostAllocWriteCombined)}) {
        char what[40];
        snprintf(what, sizeof what, "cudaHostAlloc, flags %u", flags);
        CHECK(cudaHostAlloc((void **)&host, size, flags));
        roundTrip(what, host);
        inPlace(what, host);
        unsigned got;
        CHECK(cudaHostGetFlags(&got, host));
        REQUIRE((got & flags) == flags);
        CHECK(cudaFreeHost(host));
    }

    const size_t pages = (size + 8192) / 4096 * 4096;
    void *own = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(own != MAP_FAILED);
    host = (int *)((char *)own + 64);
    CHECK(cudaHostRegister(own, pages, cudaHostRegisterMapped));
    roundTrip("cudaHostRegister", host);
    inPlace("cudaHostRegister", host);
    REPORT(cudaHostRegister(own, pages, cudaHostRegisterDefault));
    REPORT(cudaGetLastError());
    CHECK(cudaHostUnregister(own));
    REPORT(cudaHostUnregister(own));
    REPORT(cudaGetLastError());
    roundTrip("pageable afterwards", host);
    munmap(own, pages);
    REPORT(cudaFreeHost(nullptr));
    REPORT(cudaHostAlloc((void **)&host, 0, cudaHostAllocDefault));
}
