// SPDX-License-Identifier: Apache-2.0
// Vector addition, tiled matrix product, reductions, scan, histogram.

extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i];
}

#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
	__shared__ float as[TILE][TILE], bs[TILE][TILE];
	int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
	float sum = 0;
	for (int t = 0; t < n; t += TILE) {
		as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
		bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
		__syncthreads();
	}
	c[row * n + col] = sum;
}

extern "C" __global__ void reduceShuffle(const int *in, int *out, int n)
{
	int sum = 0;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		sum += in[i];
	for (int d = 16; d > 0; d >>= 1)
		sum += __shfl_down_sync(0xffffffff, sum, d);
	__shared__ int parts[32];
	if (threadIdx.x % 32 == 0)
		parts[threadIdx.x / 32] = sum;
	__syncthreads();
	if (threadIdx.x < 32) {
		sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
		for (int d = 16; d > 0; d >>= 1)
			sum += __shfl_xor_sync(0xffffffff, sum, d);
		if (threadIdx.x == 0)
			atomicAdd(out, sum);
	}
}

extern __shared__ unsigned dynamicShared[];

extern "C" __global__ void scanBlock(const unsigned *in, unsigned *out)
{
	unsigned t = threadIdx.x, n = blockDim.x;
	in += blockIdx.x * n;
	out += blockIdx.x * n;
	unsigned *from = dynamicShared, *to = dynamicShared + n;
	from[t] = in[t];
	__syncthreads();
	for (unsigned d = 1; d < n; d *= 2) {
		to[t] = t >= d ? from[t] + from[t - d] : from[t];
		__syncthreads();
		unsigned *swap = from;
		from = to;
		to = swap;
	}
	out[t] = from[t];
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, int n)
{
	__shared__ unsigned local[256];
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		local[i] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&local[in[i]], 1u);
	__syncthreads();
	for (int i = threadIdx.x; i < 256; i += blockDim.x)
		atomicAdd(&bins[i], local[i]);
}

__constant__ float weights[5] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
__device__ int calls = 7;
__device__ int *callsPointer = &calls;

extern "C" __global__ void stencil(const float *in, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	float sum = 0;
	for (int d = -2; d <= 2; d++) {
		int j = min(max(i + d, 0), n - 1);
		sum += weights[d + 2] * in[j];
	}
	out[i] = sum;
	if (i == 0)
		atomicAdd(callsPointer, 1);
}
