// SPDX-License-Identifier: Apache-2.0
// Adds two vectors on the GPU and checks every sum.
#include "check.h"
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    const int n = 100003;
    const size_t size = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; i++) {
        a[i] = i * 0.5f;
        b[i] = (n - i) * 0.25f;
    }

    float *da, *db, *dc;
    CHECK(cudaMalloc(&da, size));
    CHECK(cudaMalloc(&db, size));
    CHECK(cudaMalloc(&dc, size));
    CHECK(cudaMemcpy(da, a.data(), size, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), size, cudaMemcpyHostToDevice));

    const int threads = 256, blocks = (n + threads - 1) / threads;
    printf("adding %d pairs of floats: %d blocks of %d threads\n", n, blocks, threads);
    add<<<blocks, threads>>>(da, db, dc, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, size, cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += c[i] != a[i] + b[i];
    printf("first sum %.2f, last sum %.2f, %d wrong\n", c[0], c[n - 1], wrong);
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
    return wrong != 0;
}
