// SPDX-License-Identifier: Apache-2.0
// Reduces a vector to its sum, maximum and a count: shuffles within a warp, then shared memory.
#include "check.h"
#include <algorithm>
#include <vector>

struct Result {
    unsigned long long sum, even;
    unsigned max, upper;
};

template <typename T> __device__ T warpSum(T x) {
    for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffff, x, d);
    return x;
}

__device__ unsigned warpMax(unsigned x) {
    for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(0xffffffff, x, d));
    return x;
}

__global__ void reduce(const unsigned *in, int n, Result *out) {
    __shared__ unsigned long long sums[32];
    __shared__ unsigned maxima[32];
    unsigned long long sum = 0;
    unsigned biggest = 0, even = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += in[i];
        biggest = max(biggest, in[i]);
        even += in[i] % 2 == 0;
    }
    sum = warpSum(sum);
    biggest = warpMax(biggest);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) {
        sums[warp] = sum;
        maxima[warp] = biggest;
    }
    even = warpSum(even);
    if (lane == 0) atomicAdd(&out->even, (unsigned long long)even);
    __syncthreads();
    if (warp != 0) return;
    bool used = lane < blockDim.x / 32;
    sum = warpSum(used ? sums[lane] : 0ull);
    biggest = warpMax(used ? maxima[lane] : 0);
    if (lane != 0) return;
    atomicAdd(&out->sum, sum);
    atomicMax(&out->max, biggest);
}

__global__ void countUpper(const unsigned *in, int n, Result *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned votes = __ballot_sync(0xffffffff, i < n && in[i] >> 31);
    if (threadIdx.x % 32 == 0) atomicAdd(&out->upper, __popc(votes));
}

int main() {
    const int n = 250007;
    std::vector<unsigned> in(n);
    Random random{3};
    Result want{}, got;
    for (unsigned &x : in) {
        x = random.next();
        want.sum += x;
        want.even += x % 2 == 0;
        want.max = std::max(want.max, x);
        want.upper += x >> 31;
    }
    unsigned *din;
    Result *dout;
    CHECK(cudaMalloc(&din, n * sizeof(unsigned)));
    CHECK(cudaMalloc(&dout, sizeof(Result)));
    CHECK(cudaMemset(dout, 0, sizeof(Result)));
    CHECK(cudaMemcpy(din, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    reduce<<<40, 256>>>(din, n, dout);
    countUpper<<<(n + 127) / 128, 128>>>(din, n, dout);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&got, dout, sizeof got, cudaMemcpyDeviceToHost));
    printf("sum %llu, max %u, even %llu, upper half %u\n", got.sum, got.max, got.even, got.upper);
    REQUIRE(got.sum == want.sum && got.max == want.max);
    REQUIRE(got.even == want.even && got.upper == want.upper);
    CHECK(cudaFree(din));
    CHECK(cudaFree(dout));
}
