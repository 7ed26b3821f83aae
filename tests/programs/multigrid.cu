// SPDX-License-Identifier: Apache-2.0
// A kernel on two GPUs asks CUDA about all of it (multi_grid), and its threads wait for those of
// the other GPU. CUDA 12 has such groups for the last time: with CUDA 13 it says so.
#include "driver.h"
#if CUDART_VERSION < 13000
#include <cooperative_groups.h>
#pragma nv_diag_suppress 1444
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static const unsigned blocks = 4, threads = 64;

// What a GPU finds: whether the group is valid, its rank, how many grids and threads there are, and
// the rank of its last thread.
static __global__ void ask(unsigned *found, volatile unsigned *arrived) {
    cooperative_groups::multi_grid_group all = cooperative_groups::this_multi_grid();
    if (!all.is_valid()) return;
    unsigned *mine = found + 8 * all.grid_rank();
    if (threadIdx.x == 0) arrived[blocks * all.grid_rank() + blockIdx.x] = 1;
    __threadfence_system();
    all.sync();
    if (threadIdx.x != threads - 1 || blockIdx.x != blocks - 1) return;
    unsigned sum = 0;
    for (unsigned i = 0; i < 2 * blocks; i++) sum += arrived[i];
    mine[0] = all.is_valid();
    mine[1] = all.grid_rank();
    mine[2] = all.num_grids();
    mine[3] = all.size();
    mine[4] = all.thread_rank();
    mine[5] = sum;
}

static void launch(const char *what, unsigned flags) {
    cudaLaunchParams list[2];
    unsigned *found, *arrived;
    CHECK(cudaHostAlloc(&found, 64, cudaHostAllocPortable));
    CHECK(cudaHostAlloc(&arrived, 2 * blocks * sizeof *arrived, cudaHostAllocPortable));
    memset(found, 0, 64);
    memset(arrived, 0, 2 * blocks * sizeof *arrived);
    void *arguments[] = {&found, &arrived};
    for (int i = 0; i < 2; i++) {
        CHECK(cudaSetDevice(i));
        list[i] = {(void *)ask, dim3(blocks), dim3(threads), arguments, 0, nullptr};
        CHECK(cudaStreamCreate(&list[i].stream));
    }
    CHECK(cudaLaunchCooperativeKernelMultiDevice(list, 2, flags));
    for (int i = 0; i < 2; i++) CHECK(cudaStreamSynchronize(list[i].stream));
    for (int i = 0; i < 2; i++) {
        const unsigned *at = found + 8 * i;
        printf("%s, GPU %d: valid %u, grid %u of %u, last of %u threads %u, %u blocks came\n", what,
               i, at[0], at[1], at[2], at[3], at[4], at[5]);
    }
}

int main() {
    for (int i = 0; i < 2; i++) {
        int can;
        CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeMultiDeviceLaunch, i));
        printf("GPU %d: %s\n", i, can ? "can" : "can't");
    }
    launch("one after the other", 0);
    launch("at once", cudaCooperativeLaunchMultiDeviceNoPreSync |
                          cudaCooperativeLaunchMultiDeviceNoPostSync);
}
#else
int main() { printf("CUDA 13 has no multi_grid\n"); }
#endif
