// SPDX-License-Identifier: Apache-2.0
// A 5x5 stencil whose weights lie in constant memory and change between the launches; a tile and
// its halo go through dynamic shared memory.
#include "check.h"
#include <vector>

const int radius = 2, side = 2 * radius + 1, tile = 16, halo = tile + 2 * radius;

__constant__ int weights[side * side];
__constant__ float scale = 0.5f;

__global__ void apply(const float *in, float *out, int w, int h) {
    extern __shared__ float cells[];
    int x0 = blockIdx.x * tile - radius, y0 = blockIdx.y * tile - radius;
    for (int i = threadIdx.y * tile + threadIdx.x; i < halo * halo; i += tile * tile) {
        int x = x0 + i % halo, y = y0 + i / halo;
        cells[i] = x >= 0 && x < w && y >= 0 && y < h ? in[y * w + x] : 0;
    }
    __syncthreads();
    int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = 0; j < side; j++)
        for (int i = 0; i < side; i++)
            sum += weights[j * side + i] * cells[(threadIdx.y + j) * halo + threadIdx.x + i];
    out[y * w + x] = sum * scale;
}

static float expected(const std::vector<float> &in, const int *k, float s, int w, int h, int x,
                      int y) {
    float sum = 0;
    for (int j = -radius; j <= radius; j++)
        for (int i = -radius; i <= radius; i++)
            if (x + i >= 0 && x + i < w && y + j >= 0 && y + j < h)
                sum += k[(j + radius) * side + i + radius] * in[(y + j) * w + x + i];
    return sum * s;
}

int main() {
    const int w = 133, h = 71;
    std::vector<float> in(w * h), out(w * h);
    Random random{11};
    for (float &x : in) x = random.below(256);
    float *din, *dout;
    CHECK(cudaMalloc(&din, w * h * sizeof(float)));
    CHECK(cudaMalloc(&dout, w * h * sizeof(float)));
    CHECK(cudaMemcpy(din, in.data(), w * h * sizeof(float), cudaMemcpyHostToDevice));
    dim3 blocks((w + tile - 1) / tile, (h + tile - 1) / tile), threads(tile, tile);

    int k[side * side], back[side * side];
    float s = 0.5f;
    for (int round = 0; round < 3; round++) {
        for (int &x : k) x = int(random.below(9)) - 4;
        CHECK(cudaMemcpyToSymbol(weights, k, sizeof k));
        k[12] = 100 + round;
        CHECK(cudaMemcpyToSymbolAsync(weights, &k[12], sizeof(int), 12 * sizeof(int),
                                      cudaMemcpyHostToDevice, 0));
        apply<<<blocks, threads, halo * halo * sizeof(float)>>>(din, dout, w, h);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(out.data(), dout, w * h * sizeof(float), cudaMemcpyDeviceToHost));
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) REQUIRE(out[y * w + x] == expected(in, k, s, w, h, x, y));
        CHECK(cudaMemcpyFromSymbol(back, weights, sizeof back));
        for (int i = 0; i < side * side; i++) REQUIRE(back[i] == k[i]);
        printf("round %d: scale %.2f, hash %016llx\n", round, s,
               (unsigned long long)hash(out.data(), w * h * sizeof(float)));
        s *= 2;
        CHECK(cudaMemcpyToSymbol(scale, &s, sizeof s));
    }
    size_t bytes;
    CHECK(cudaGetSymbolSize(&bytes, weights));
    printf("%zu bytes of weights\n", bytes);
    CHECK(cudaFree(din));
    CHECK(cudaFree(dout));
}
