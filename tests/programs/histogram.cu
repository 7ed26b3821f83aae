// SPDX-License-Identifier: Apache-2.0
// Counts bytes into 256 bins: atomics in shared memory, then in global memory.
#include "check.h"
#include <vector>

__global__ void count(const unsigned char *in, int n, unsigned *bins) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    const uchar4 *quads = (const uchar4 *)in;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        uchar4 q = quads[i];
        atomicAdd(&local[q.x], 1);
        atomicAdd(&local[q.y], 1);
        atomicAdd(&local[q.z], 1);
        atomicAdd(&local[q.w], 1);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) atomicAdd(&local[in[n / 4 * 4 + threadIdx.x]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

int main() {
    const int n = 500003;
    std::vector<unsigned char> in(n);
    std::vector<unsigned> want(256), got(256);
    Random random{5};
    for (unsigned char &c : in) {
        c = random.below(256) & random.below(256);
        want[c]++;
    }
    unsigned char *din;
    unsigned *dbins;
    CHECK(cudaMalloc(&din, n));
    CHECK(cudaMalloc(&dbins, 256 * sizeof(unsigned)));
    CHECK(cudaMemcpy(din, in.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dbins, 0, 256 * sizeof(unsigned)));
    count<<<32, 192>>>(din, n, dbins);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), dbins, 256 * sizeof(unsigned), cudaMemcpyDeviceToHost));
    REQUIRE(got == want);
    printf("bin 0: %u, bin 64: %u, bin 255: %u\n", got[0], got[64], got[255]);
    CHECK(cudaFree(din));
    CHECK(cudaFree(dbins));
}
