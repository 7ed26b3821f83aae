// SPDX-License-Identifier: Apache-2.0
// Cooperative groups of several warps, which from compute capability 8.0 on work in the shared
// memory that the system reserves.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

namespace {

// Each block begins with the reserved memory that another one has used.
template <int Size>
__global__ void sums(const int *in, int *totals, int *prefixes) {
    extern __shared__ int own[];
#if __CUDA_ARCH__ >= 800
    auto block = cg::this_thread_block();
#else
    __shared__ cg::block_tile_memory<256> scratch;
    auto block = cg::this_thread_block(scratch);
#endif
    auto tile = cg::tiled_partition<Size>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    own[threadIdx.x] = in[i];
    int total = 0;
    for (int round = 0; round < 3; round++) {
        total = cg::reduce(tile, own[threadIdx.x], cg::plus<int>());
        tile.sync();
    }
    prefixes[i] = cg::inclusive_scan(tile, own[threadIdx.x]);
    block.sync();
    if (tile.thread_rank() == 0)
        totals[i / Size] = total;
    prefixes[i] += tile.shfl(own[threadIdx.x], 7) - tile.shfl(own[threadIdx.x], 7);
}

template <int Size>
void test() {
    const int threads = 256, blocks = 64, n = threads * blocks;
    int *in, *totals, *prefixes;
    CHECK(cudaMallocManaged(&in, n * sizeof(int)));
    CHECK(cudaMallocManaged(&totals, n * sizeof(int)));
    CHECK(cudaMallocManaged(&prefixes, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        in[i] = i * 37 % 1001;
    sums<Size><<<blocks, threads, threads * sizeof(int)>>>(in, totals, prefixes);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    int wrong = 0;
    for (int i = 0, sum = 0; i < n; i++) {
        sum = i % Size == 0 ? in[i] : sum + in[i];
        wrong += prefixes[i] != sum;
        if (i % Size == Size - 1)
            wrong += totals[i / Size] != sum;
    }
    printf("groups of %d: %d wrong\n", Size, wrong);
    CHECK(cudaFree(in));
    CHECK(cudaFree(totals));
    CHECK(cudaFree(prefixes));
}

}  // namespace

int main() {
    test<32>();
    test<64>();
    test<128>();
    test<256>();
    return 0;
}
