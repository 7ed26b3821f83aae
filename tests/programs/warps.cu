// SPDX-License-Identifier: Apache-2.0
// Votes, shuffles of all kinds, matches and cooperative groups within a warp, in converged code
// and in branches.
#include "check.h"
#include <cooperative_groups.h>
#include <vector>

namespace cg = cooperative_groups;
const unsigned full = 0xffffffff;

__global__ void intrinsics(unsigned *out) {
    unsigned lane = threadIdx.x % 32, *o = out + 16 * threadIdx.x;
    o[0] = __ballot_sync(full, lane % 3 == 0);
    o[1] = __any_sync(full, lane == 40) * 2 + __all_sync(full, lane < 32);
    o[2] = __shfl_sync(full, lane * 10, 7);
    o[3] = __shfl_sync(full, lane, lane + 5, 8);
    o[4] = __shfl_up_sync(full, lane, 3);
    o[5] = __shfl_down_sync(full, lane, 2, 16);
    o[6] = __shfl_xor_sync(full, lane, 21);
    o[7] = __match_any_sync(full, lane / 5);
    int all;
    o[8] = __match_all_sync(full, lane / 32, &all) + all;
    o[9] = unsigned(__shfl_xor_sync(full, (unsigned long long)lane << 33, 1) >> 32);
    if (lane % 2) {
        o[10] = __ballot_sync(0xaaaaaaaa, lane > 16);
    } else if (lane % 4) {
        o[10] = __shfl_sync(0x44444444, lane, 6);
    } else {
        o[10] = __popc(__activemask());
    }
    __syncwarp();
    o[11] = __popc(lane * 0x01010101) + __clz(lane) * 100 + __ffs(lane) * 10000;
    o[12] = __brev(lane) ^ __byte_perm(lane, 0x11223344, 0x5410 + lane % 4);
    o[13] = __funnelshift_l(lane, 0x80000001, lane);
    o[14] = __float_as_uint(__shfl_down_sync(full, float(lane), 1));
    o[15] = __syncthreads_count(lane < 4) + 1000 * __syncthreads_or(lane == 9);
}

__global__ void groups(unsigned *out) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto quad = cg::tiled_partition<4>(warp);
    unsigned *o = out + 16 * threadIdx.x, sum = quad.thread_rank() + 1;
    o[0] = warp.meta_group_rank() * 100 + quad.meta_group_rank();
    for (int d = 2; d > 0; d /= 2) sum += quad.shfl_xor(sum, d);
    o[1] = sum;
    o[2] = quad.ballot(quad.thread_rank() == 2) + 16 * quad.any(threadIdx.x == 63);
    if (threadIdx.x % 5 == 1) {
        auto some = cg::coalesced_threads();
        o[3] = some.size() * 100 + some.thread_rank();
        o[4] = some.shfl(threadIdx.x, 0);
    }
    block.sync();
    o[5] = block.size() + block.thread_index().x;
    for (int i = 6; i < 16; i++) o[i] = 0;
    if (threadIdx.x % 5 != 1) o[3] = o[4] = 0;
}

int main() {
    const int threads = 64;
    unsigned *dev;
    std::vector<unsigned> out(16 * threads);
    size_t size = out.size() * sizeof(unsigned);
    CHECK(cudaMalloc(&dev, size));
    intrinsics<<<1, threads>>>(dev);
    CHECK(cudaMemcpy(out.data(), dev, size, cudaMemcpyDeviceToHost));
    for (int t : {0, 1, 9, 30, 31, 63}) {
        printf("thread %d:", t);
        for (int i = 0; i < 16; i++) printf(" %x", out[16 * t + i]);
        printf("\n");
    }
    for (int t = 0; t < threads; t++) {
        unsigned lane = t % 32, *o = &out[16 * t];
        REQUIRE(o[0] == 0x49249249 && o[1] == 1 && o[2] == 70 &&
                o[3] == (lane & 24) + (lane + 5) % 8);
        REQUIRE(o[4] == (lane < 3 ? lane : lane - 3) && o[6] == (lane ^ 21));
        REQUIRE(o[5] == (lane % 16 < 14 ? lane + 2 : lane) && o[9] == 2 * (lane ^ 1));
        REQUIRE(o[10] == (lane % 2 ? 0xaaaa0000 : lane % 4 ? 6 : 8) && o[15] == 1008);
    }
    groups<<<1, threads>>>(dev);
    CHECK(cudaMemcpy(out.data(), dev, size, cudaMemcpyDeviceToHost));
    for (int t = 0; t < threads; t++)
        REQUIRE(out[16 * t + 1] == 10 && out[16 * t + 5] == unsigned(64 + t));
    printf("groups: hash %016llx\n", (unsigned long long)hash(out.data(), size));
    CHECK(cudaFree(dev));
}
