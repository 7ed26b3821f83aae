// SPDX-License-Identifier: Apache-2.0
// How long memory stays registered: while a stream has yet to read it, and until a reset of the
// device, after which other pages may be there.
#include "inplace.h"
#include <thread>
#include <unistd.h>

// What frees or unregisters memory waits for the stream that has yet to read it.
static void whileHeld(bool allocated) {
    unsigned char *p = nullptr, *dev, value = 0;
    cudaStream_t stream;
    static volatile bool open;
    open = false;
    CHECK(cudaMalloc(&dev, page));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (allocated) {
        CHECK(cudaMallocHost(&p, page));
    } else {
        p = map(page);
        CHECK(cudaHostRegister(p, page, cudaHostRegisterDefault));
    }
    memset(p, 7, page);
    CHECK(cudaLaunchHostFunc(stream, [](void *) { while (!open) usleep(1000); }, nullptr));
    CHECK(cudaMemcpyAsync(dev, p, page, cudaMemcpyHostToDevice, stream));
    std::thread opener([] { usleep(200000); open = true; });
    CHECK(allocated ? cudaFreeHost(p) : cudaHostUnregister(p));
    CHECK(cudaStreamSynchronize(stream));
    opener.join();
    CHECK(cudaMemcpy(&value, dev + page - 1, 1, cudaMemcpyDeviceToHost));
    REQUIRE(value == 7);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(dev));
    printf("%s while a stream has yet to read it\n", allocated ? "freed" : "unregistered");
}

static void untilReset() {
    unsigned char *p = map(2 * page), *dev, value;
    memset(p, 1, 2 * page);
    CHECK(cudaHostRegister(p, 2 * page, cudaHostRegisterDefault));
    CHECK(cudaDeviceReset());
    munmap(p, 2 * page);
    map(2 * page, p);
    memset(p, 2, 2 * page);
    CHECK(cudaMalloc(&dev, 2 * page));
    CHECK(cudaMemcpy(dev, p, 2 * page, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(&value, dev + page, 1, cudaMemcpyDeviceToHost));
    REQUIRE(value == 2);
    CHECK(cudaHostRegister(p, 2 * page, cudaHostRegisterDefault));
    use(p, 2 * page);
    CHECK(cudaHostUnregister(p));
    CHECK(cudaFree(dev));
    puts("registered until a reset");
}

int main() {
    whileHeld(true);
    whileHeld(false);
    untilReset();
}
