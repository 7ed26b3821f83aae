// SPDX-License-Identifier: Apache-2.0
// Atomic operations on all types.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void atomicsInt(int *i, unsigned *u, unsigned long long *l, long long *sl)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	atomicAdd(&i[0], (int)t);
	atomicSub(&i[1], (int)t);
	atomicMin(&i[2], -(int)t);
	atomicMax(&i[3], (int)t);
	atomicAnd(&i[4], ~(1 << (t & 15)));
	atomicOr(&i[5], 1 << (t & 15));
	atomicXor(&i[6], (int)t);
	atomicAdd(&u[0], t);
	atomicInc(&u[1], 100);
	atomicDec(&u[2], 100);
	atomicMin(&u[3], t);
	atomicMax(&u[4], t);
	atomicAdd(&l[0], (unsigned long long)t << 20);
	atomicMin(&l[1], (unsigned long long)t + 5);
	atomicMax(&l[2], (unsigned long long)t << 40);
	atomicAnd(&l[3], ~(1ull << (t & 63)));
	atomicOr(&l[4], 1ull << (t & 63));
	atomicXor(&l[5], (unsigned long long)t << 32);
	atomicMax(&sl[0], (long long)t - 1000);
	atomicMin(&sl[1], (long long)t - 1000);
	int seen = i[7], want;
	do {
		want = seen;
		seen = atomicCAS(&i[7], want, want + 2);
	} while (seen != want);
	unsigned long long lseen = l[6], lwant;
	do {
		lwant = lseen;
		lseen = atomicCAS(&l[6], lwant, lwant + 3);
	} while (lseen != lwant);
	atomicExch(&u[5], 77u);
	atomicExch(&l[7], 99ull);
}

extern "C" __global__ void atomicsFloat(float *f, double *d, __half2 *h2, __half *h, unsigned short *s, int n)
{
	__shared__ float local;
	__shared__ double locald;
	if (threadIdx.x == 0)
		local = 0, locald = 0;
	__syncthreads();
	atomicAdd(&f[0], 0.5f);
	atomicAdd(&d[0], 0.25);
	atomicAdd(&h2[0], __floats2half2_rn(1.0f, 0.5f));
	atomicAdd(&h[0], __float2half(1.0f));
	atomicAdd(&local, 1.0f);
	atomicAdd(&locald, 2.0);
	atomicExch(&f[1], 3.0f);
	unsigned short want, seen = s[1];
	do {
		want = seen;
		seen = atomicCAS(&s[1], want, (unsigned short)(want + 1));
	} while (seen != want);
	__syncthreads();
	if (threadIdx.x == 0) {
		atomicAdd(&f[2], local);
		atomicAdd(&d[1], locald);
	}
}
