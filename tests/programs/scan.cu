// SPDX-License-Identifier: Apache-2.0
// Inclusive and exclusive prefix sums over many blocks: block sums are scanned in turn and added.
#include "check.h"
#include <vector>

const int width = 256;

__global__ void scanBlock(const int *in, int *out, int *sums, int n, bool exclusive) {
    __shared__ int buffer[2][width];
    int i = blockIdx.x * width + threadIdx.x, t = threadIdx.x, from = 0;
    int own = i < n ? in[i] : 0;
    buffer[0][t] = own;
    __syncthreads();
    for (int d = 1; d < width; d *= 2) {
        buffer[1 - from][t] = buffer[from][t] + (t >= d ? buffer[from][t - d] : 0);
        from = 1 - from;
        __syncthreads();
    }
    if (i < n) out[i] = buffer[from][t] - (exclusive ? own : 0);
    if (t == width - 1) sums[blockIdx.x] = buffer[from][t];
}

__global__ void addOffsets(int *data, const int *offsets, int n) {
    int i = blockIdx.x * width + threadIdx.x;
    if (i < n) data[i] += offsets[blockIdx.x];
}

static void scan(const int *in, int *out, int n, bool exclusive) {
    int blocks = (n + width - 1) / width;
    int *sums;
    CHECK(cudaMalloc(&sums, blocks * sizeof(int)));
    scanBlock<<<blocks, width>>>(in, out, sums, n, exclusive);
    CHECK(cudaGetLastError());
    if (blocks > 1) {
        scan(sums, sums, blocks, true);
        addOffsets<<<blocks, width>>>(out, sums, n);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaFree(sums));
}

static void run(int n) {
    std::vector<int> in(n), out(n);
    Random random{uint64_t(n)};
    for (int &x : in) x = int(random.below(2001)) - 1000;
    int *din, *dout;
    CHECK(cudaMalloc(&din, n * sizeof(int)));
    CHECK(cudaMalloc(&dout, n * sizeof(int)));
    CHECK(cudaMemcpy(din, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    for (bool exclusive : {false, true}) {
        scan(din, dout, n, exclusive);
        CHECK(cudaMemcpy(out.data(), dout, n * sizeof(int), cudaMemcpyDeviceToHost));
        int sum = 0;
        for (int i = 0; i < n; i++) {
            REQUIRE(out[i] == (exclusive ? sum : sum + in[i]));
            sum += in[i];
        }
        printf("%d numbers, %s: last %d\n", n, exclusive ? "exclusive" : "inclusive", out[n - 1]);
    }
    CHECK(cudaFree(din));
    CHECK(cudaFree(dout));
}

int main() {
    for (int n : {1, 255, 256, 257, 70001}) run(n);
}
