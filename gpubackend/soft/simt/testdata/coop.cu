// SPDX-License-Identifier: Apache-2.0
// Cooperative groups, asynchronous copies and barriers, cuda::atomic, SIMD in words.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

extern "C" __global__ void gridSync(int *a, int n)
{
	cg::grid_group g = cg::this_grid();
	int i = g.thread_rank();
	for (int r = 0; r < 5; r++) {
		if (i < n)
			a[(r + 1) * n + i] = a[r * n + (i + 1) % n] + 1;
		g.sync();
	}
}

extern "C" __global__ void tiles(const int *in, int *out)
{
	cg::thread_block b = cg::this_thread_block();
	auto t = cg::tiled_partition<8>(b);
	int v = in[b.thread_rank()];
	int s = cg::reduce(t, v, cg::plus<int>());
	int p = cg::inclusive_scan(t, v);
	if (v & 1) {
		auto d = cg::coalesced_threads();
		s += d.size() * 1000 + d.thread_rank() * 100000;
		d.sync();
	}
	b.sync();
	out[b.thread_rank()] = s * 7 + p;
}

extern "C" __global__ void pipeline(const int4 *in, int *out)
{
	__shared__ int4 s[64];
	__shared__ cuda::barrier<cuda::thread_scope_block> bar;
	if (threadIdx.x == 0)
		init(&bar, blockDim.x);
	__pipeline_memcpy_async(&s[threadIdx.x], &in[threadIdx.x], 16);
	__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncthreads();
	for (int i = 0; i < 3; i++) {
		int v = s[63 - threadIdx.x].y;
		bar.arrive_and_wait();
		s[threadIdx.x].y = v + 1;
		bar.arrive_and_wait();
	}
	out[threadIdx.x] = s[threadIdx.x].y;
}

extern "C" __global__ void atomicRefs(int *p, unsigned long long *q, float *f)
{
	cuda::atomic_ref<int, cuda::thread_scope_device> r(*p);
	r.fetch_add(1, cuda::memory_order_relaxed);
	cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(*q).fetch_max(threadIdx.x);
	cuda::atomic_ref<float, cuda::thread_scope_device>(*f).fetch_add(1.0f);
	while (r.load(cuda::memory_order_acquire) < (int)(gridDim.x * blockDim.x))
		__nanosleep(100);
}

extern "C" __global__ void words(const unsigned *a, const unsigned *b, unsigned *out)
{
	int i = threadIdx.x;
	out[i * 4] = __vadd4(a[i], b[i]);
	out[i * 4 + 1] = __vabsdiffu4(a[i], b[i]);
	out[i * 4 + 2] = __vsadu4(a[i], b[i]);
	out[i * 4 + 3] = __vmaxs2(a[i], b[i]);
}
