// SPDX-License-Identifier: Apache-2.0
// Copies boxes of bytes: pitched rows, sub-boxes of 3D memory, device to device, and 2D and 3D
// memsets. Bytes outside the box must stay as they were.
#include "check.h"
#include <cstring>
#include <vector>

typedef std::vector<unsigned char> Bytes;

static Bytes randomBytes(size_t size, uint64_t seed) {
    Random random{seed};
    Bytes b(size);
    for (unsigned char &c : b) c = random.next();
    return b;
}

static void boxes2D(size_t width, size_t height) {
    const size_t hostPitch = width + 13;
    Bytes in = randomBytes(hostPitch * height, width), out(hostPitch * height, 0xee);
    unsigned char *a, *b;
    size_t pa, pb = (width + 7) / 4 * 4;
    CHECK(cudaMallocPitch(&a, &pa, width, height));
    CHECK(cudaMalloc(&b, pb * height));
    REQUIRE(pa >= width && pa % 32 == 0);
    CHECK(cudaMemset(b, 0x55, pb * height));
    CHECK(cudaMemcpy2D(a, pa, in.data(), hostPitch, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(b, pb, a, pa, width, height, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2D(out.data(), hostPitch, b, pb, width, height, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < hostPitch; x++)
            REQUIRE(out[y * hostPitch + x] == (x < width ? in[y * hostPitch + x] : 0xee));

    Bytes flat(pb * height);
    CHECK(cudaMemcpy(flat.data(), b, flat.size(), cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++)
        for (size_t x = width; x < pb; x++) REQUIRE(flat[y * pb + x] == 0x55);

    if (width > 2 && height > 2) {
        CHECK(cudaMemset2D(b + pb + 1, pb, 0x21, width - 2, height - 2));
        CHECK(
            cudaMemcpy2DAsync(out.data(), width, b, pb, width, height, cudaMemcpyDeviceToHost, 0));
        CHECK(cudaStreamSynchronize(0));
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < width; x++) {
                bool in2 = x > 0 && x < width - 1 && y > 0 && y < height - 1;
                REQUIRE(out[y * width + x] == (in2 ? 0x21 : in[y * hostPitch + x]));
            }
    }
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    printf("%zu x %zu bytes: right\n", width, height);
}

static void boxes3D() {
    const size_t w = 61, h = 17, d = 9;
    cudaExtent extent = make_cudaExtent(w, h, d);
    cudaPitchedPtr a, b;
    CHECK(cudaMalloc3D(&a, extent));
    CHECK(cudaMalloc3D(&b, extent));
    CHECK(cudaMemset3D(b, 0x77, extent));
    Bytes in = randomBytes(w * h * d, 3), out(w * h * d);

    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(in.data(), w, w, h);
    p.dstPtr = a;
    p.extent = extent;
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));

    p = cudaMemcpy3DParms{};
    p.srcPtr = a;
    p.srcPos = make_cudaPos(10, 2, 1);
    p.dstPtr = b;
    p.dstPos = make_cudaPos(3, 5, 4);
    p.extent = make_cudaExtent(20, 8, 5);
    p.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3DAsync(&p, 0));

    p = cudaMemcpy3DParms{};
    p.srcPtr = b;
    p.dstPtr = make_cudaPitchedPtr(out.data(), w, w, h);
    p.extent = extent;
    p.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&p));
    for (size_t z = 0; z < d; z++)
        for (size_t y = 0; y < h; y++)
            for (size_t x = 0; x < w; x++) {
                bool moved = x >= 3 && x < 23 && y >= 5 && y < 13 && z >= 4 && z < 9;
                size_t from = ((z - 3) * h + y - 3) * w + x + 7;
                REQUIRE(out[(z * h + y) * w + x] == (moved ? in[from] : 0x77));
            }
    CHECK(cudaFree(a.ptr));
    CHECK(cudaFree(b.ptr));
    printf("%zu x %zu x %zu bytes: right\n", w, h, d);
}

int main() {
    boxes2D(1, 1);
    boxes2D(64, 32);
    boxes2D(1001, 77);
    boxes2D(7, 3000);
    boxes3D();
    unsigned char *p, small[16];
    CHECK(cudaMalloc(&p, 4096));
    REPORT(cudaMemcpy2D(p, 4, small, 8, 8, 2, cudaMemcpyHostToDevice));
    REPORT(cudaMemcpy2D(p, 8, small, 8, 0, 2, cudaMemcpyHostToDevice));
    REPORT(cudaGetLastError());
    CHECK(cudaFree(p));
}
