// SPDX-License-Identifier: Apache-2.0
// Fills memory in units of one, two and four bytes, in one and two dimensions, by runtime and
// driver, at odd offsets, and never beyond the end.
#include "driver.h"
#include <cstring>
#include <vector>

const size_t size = 100003;

static std::vector<unsigned char> want(size), got(size);
static CUdeviceptr dev;

template <typename T> void fillRow(size_t offset, size_t count, T value) {
    for (size_t i = 0; i < count; i++) memcpy(&want[offset + i * sizeof(T)], &value, sizeof(T));
}

static void compare(const char *what) {
    CHECKCU(cuMemcpyDtoH(got.data(), dev, size));
    REQUIRE(got == want);
    printf("%s: right\n", what);
}

int main() {
    openDevice();
    CHECKCU(cuMemAlloc(&dev, size));
    CHECK(cudaMemset((void *)dev, 0x11, size));
    fillRow<unsigned char>(0, size, 0x11);
    compare("cudaMemset");

    CHECK(cudaMemset((char *)dev + 1, 0x1ff, 4999));
    fillRow<unsigned char>(1, 4999, 0xff);
    compare("cudaMemset, odd, only the low byte");

    CHECKCU(cuMemsetD8(dev + 7, 0x22, 33));
    fillRow<unsigned char>(7, 33, 0x22);
    CHECKCU(cuMemsetD16(dev + 1002, 0x1234, 777));
    fillRow<unsigned short>(1002, 777, 0x1234);
    CHECKCU(cuMemsetD32(dev + 8004, 0xdeadbeef, 5001));
    fillRow<unsigned>(8004, 5001, 0xdeadbeef);
    compare("cuMemsetD8, D16, D32");

    const size_t pitch = 512, rows = 9, base = 40000;
    CHECKCU(cuMemsetD2D8(dev + base, pitch, 0x33, 101, rows));
    CHECKCU(cuMemsetD2D16(dev + base + 128, pitch, 0x5678, 50, rows));
    CHECKCU(cuMemsetD2D32(dev + base + 256, pitch, 0x01020304, 60, rows));
    for (size_t y = 0; y < rows; y++) {
        fillRow<unsigned char>(base + y * pitch, 101, 0x33);
        fillRow<unsigned short>(base + y * pitch + 128, 50, 0x5678);
        fillRow<unsigned>(base + y * pitch + 256, 60, 0x01020304);
    }
    compare("cuMemsetD2D8, D2D16, D2D32");

    // One row has no use for a pitch.
    CHECKCU(cuMemsetD2D16(dev + base, 65, 0x9abc, 50, 1));
    CHECKCU(cuMemsetD2D32(dev + base + 128, 66, 0x05060708, 60, 1));
    CHECKCU(cuMemsetD2D32Async(dev + base + 512, 66, 0x0a0b0c0d, 10, 1, nullptr));
    fillRow<unsigned short>(base, 50, 0x9abc);
    fillRow<unsigned>(base + 128, 60, 0x05060708);
    fillRow<unsigned>(base + 512, 10, 0x0a0b0c0d);
    REPORTCU(cuMemsetD2D32(dev + base, 66, 1, 4, 2));
    compare("one row whose pitch isn't a multiple");

    CUstream stream;
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECKCU(cuMemsetD8Async(dev, 1, size, stream));
    CHECKCU(cuMemsetD32Async(dev, 2, 100, stream));
    CHECKCU(cuMemsetD16Async(dev + 2, 3, 1, stream));
    CHECK(cudaMemset2DAsync((void *)(dev + 5000), 64, 4, 10, 20, (cudaStream_t)stream));
    CHECKCU(cuStreamSynchronize(stream));
    fillRow<unsigned char>(0, size, 1);
    fillRow<unsigned>(0, 100, 2);
    fillRow<unsigned short>(2, 1, 3);
    for (size_t y = 0; y < 20; y++) fillRow<unsigned char>(5000 + 64 * y, 10, 4);
    compare("asynchronous, in order");

    CHECKCU(cuMemsetD8(dev + size - 1, 9, 1));
    want[size - 1] = 9;
    CHECK(cudaMemset((void *)dev, 5, 0));
    compare("the last byte, and none");
    REPORTCU(cuMemsetD32(dev + 2, 1, 1));
    REPORTCU(cuMemsetD8(dev, 1, size_t(1) << 40));
    REPORT(cudaMemset(nullptr, 0, 16));
    CHECKCU(cuStreamDestroy(stream));
    CHECKCU(cuMemFree(dev));
}
