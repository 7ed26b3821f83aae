// SPDX-License-Identifier: Apache-2.0
// Multiplies matrices by tiles in shared memory. The entries are small whole numbers, so that the
// products are exact in whatever order they are summed.
#include "check.h"
#include <vector>

const int tile = 16;

__global__ void multiply(const float *a, const float *b, float *c, int rows, int inner, int cols) {
    __shared__ float as[tile][tile], bs[tile][tile + 1];
    int row = blockIdx.y * tile + threadIdx.y, col = blockIdx.x * tile + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < inner; k += tile) {
        int ka = k + threadIdx.x, kb = k + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < rows && ka < inner ? a[row * inner + ka] : 0;
        bs[threadIdx.y][threadIdx.x] = kb < inner && col < cols ? b[kb * cols + col] : 0;
        __syncthreads();
        for (int i = 0; i < tile; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < rows && col < cols) c[row * cols + col] = sum;
}

static void fill(std::vector<float> &m, uint64_t seed) {
    Random random{seed};
    for (float &x : m) x = int(random.below(17)) - 8;
}

int main() {
    const int rows = 150, inner = 123, cols = 201;
    std::vector<float> a(rows * inner), b(inner * cols), c(rows * cols), want(rows * cols);
    fill(a, 1);
    fill(b, 2);
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++)
            for (int j = 0; j < cols; j++) want[i * cols + j] += a[i * inner + k] * b[k * cols + j];

    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&db, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    dim3 threads(tile, tile), blocks((cols + tile - 1) / tile, (rows + tile - 1) / tile);
    multiply<<<blocks, threads>>>(da, db, dc, rows, inner, cols);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    REQUIRE(c == want);
    printf("%dx%d by %dx%d: hash %016llx\n", rows, inner, inner, cols,
           (unsigned long long)hash(c.data(), c.size() * sizeof(float)));
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
}
