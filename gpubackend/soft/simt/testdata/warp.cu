// SPDX-License-Identifier: Apache-2.0
// Warp-level operations and barriers.

extern "C" __global__ void votes(const int *in, unsigned *out)
{
	int t = threadIdx.x, v = in[t];
	unsigned *o = out + t * 16;
	o[0] = __ballot_sync(~0u, v > 3);
	o[1] = __any_sync(~0u, v == 100);
	o[2] = __all_sync(~0u, v < 1000);
	o[3] = __activemask();
	o[4] = __shfl_sync(~0u, v, v, 8);
	o[5] = __shfl_up_sync(~0u, v, 3);
	o[6] = __shfl_down_sync(~0u, v, 5, 16);
	o[7] = __shfl_xor_sync(~0u, v, 9);
	o[8] = 0;
	o[9] = __syncthreads_count(v & 1);
	o[10] = __syncthreads_and(v >= 0);
	o[11] = __syncthreads_or(v == 5);
	if (v & 1)
		o[8] = __activemask();
	__syncwarp();
	o[12] = __match_any_sync(~0u, v);
	int pred;
	o[13] = __match_all_sync(~0u, v >> 10, &pred) + pred;
	long long wide = __shfl_xor_sync(~0u, (long long)v << 33, 1);
	o[14] = wide >> 33;
	o[15] = __popc(o[0]) + __clz(v) + __ffs(v) + __brev(v);
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void reduxes(const int *in, unsigned *out)
{
	int t = threadIdx.x, v = in[t];
	unsigned *o = out + t * 8;
	o[0] = __reduce_add_sync(~0u, v);
	o[1] = __reduce_min_sync(~0u, v);
	o[2] = __reduce_max_sync(~0u, v);
	o[3] = __reduce_and_sync(~0u, (unsigned)v);
	o[4] = __reduce_or_sync(~0u, (unsigned)v);
	o[5] = __reduce_xor_sync(~0u, (unsigned)v);
	o[6] = __reduce_max_sync(~0u, (unsigned)v);
	o[7] = 0;
}
#endif

extern "C" __global__ void partial(unsigned *out)
{
	unsigned t = threadIdx.x;
	if (t % 3 == 0) {
		unsigned mask = __activemask();
		out[t] = __shfl_sync(mask, t, 3) + 100 * __popc(mask);
	} else {
		unsigned mask = __match_any_sync(__activemask(), t % 3);
		out[t] = mask;
	}
}

extern "C" __global__ void specials(unsigned *out, unsigned long long *clocks)
{
	unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
	unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
	unsigned size = blockDim.x * blockDim.y * blockDim.z;
	unsigned lane, lt, ge, warp;
	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
	asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
	asm("mov.u32 %0, %%warpid;" : "=r"(warp));
	unsigned *o = out + (b * size + t) * 4;
	o[0] = lane;
	o[1] = lt;
	o[2] = ge;
	o[3] = warp;
	clocks[b * size + t] = clock64();
}

// Each quad names its own members, in one instruction of the warp.
extern "C" __global__ void tiles(unsigned *out)
{
	unsigned lane = threadIdx.x % 32, mask = 15u << (lane & ~3u);
	unsigned *o = out + 4 * threadIdx.x;
	o[0] = __ballot_sync(mask, lane % 4 == 2);
	o[1] = __any_sync(mask, threadIdx.x == 63) + 2 * __all_sync(mask, lane < 8);
	o[2] = __match_any_sync(mask, lane / 2);
	o[3] = __shfl_xor_sync(mask, lane, 3);
	__syncwarp(mask);
}
