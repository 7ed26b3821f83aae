// SPDX-License-Identifier: Apache-2.0
// Control flow: divergence, recursion, indirect calls, locks between lanes,
// printf, assert, device-side malloc.
#include <cstdio>
#include <cassert>

extern "C" __global__ void collatz(const unsigned *in, unsigned *steps, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	unsigned long long x = in[i];
	unsigned count = 0;
	while (x != 1) {
		if (x & 1)
			x = 3 * x + 1;
		else
			x >>= 1;
		if (++count > 1000)
			break;
	}
	steps[i] = count;
}

extern "C" __global__ void nested(const int *in, int *out)
{
	int v = in[threadIdx.x], r = 0;
	for (int i = 0; i < v; i++) {
		switch ((i + threadIdx.x) % 7) {
		case 0: r += 3; break;
		case 1: r ^= i; break;
		case 2: if (r & 1) continue; r += 5; break;
		case 3: r = r * 3 + 1; break;
		case 4: if (r > 1000) goto out; r -= 2; break;
		case 5: for (int k = 0; k < (int)threadIdx.x % 4; k++) r += k; break;
		default: r += __popc(__activemask()) > 0; break;
		}
	}
out:
	out[threadIdx.x] = r;
}

__device__ __noinline__ int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

extern "C" __global__ void recursion(int *out)
{
	out[threadIdx.x] = fib(threadIdx.x % 13);
}

struct Pair { int a; double b; char c[7]; };

__device__ __noinline__ Pair mix(Pair p, int k)
{
	p.a += k;
	p.b *= k;
	p.c[k % 7]++;
	return p;
}

extern "C" __global__ void structs(Pair in, Pair *out)
{
	Pair p = mix(in, threadIdx.x);
	out[threadIdx.x] = p;
}

typedef int (*Operation)(int, int);
__device__ int opAdd(int a, int b) { return a + b; }
__device__ int opSub(int a, int b) { return a - b; }
__device__ int opMul(int a, int b) { return a * b; }
__device__ Operation operations[3] = {opAdd, opSub, opMul};

extern "C" __global__ void indirect(int *out)
{
	out[threadIdx.x] = operations[threadIdx.x % 3](threadIdx.x, 5);
}

struct Shape { __device__ virtual float area() const = 0; };
struct Square : Shape { float s; __device__ Square(float s) : s(s) {} __device__ float area() const override { return s * s; } };
struct Disc : Shape { float r; __device__ Disc(float r) : r(r) {} __device__ float area() const override { return 3 * r * r; } };

extern "C" __global__ void virtuals(float *out)
{
	Shape *s;
	if (threadIdx.x & 1)
		s = new Square(threadIdx.x);
	else
		s = new Disc(threadIdx.x);
	__syncwarp();
	out[threadIdx.x] = s->area();
	free(s);
}

__device__ int lock;

extern "C" __global__ void spinLock(int *counter)
{
	while (atomicCAS(&lock, 0, 1) != 0)
		;
	__threadfence();
	*(volatile int *)counter = *(volatile int *)counter + 1;
	__threadfence();
	atomicExch(&lock, 0);
}

extern "C" __global__ void producerConsumer(int *out)
{
	__shared__ volatile int flag, value;
	if (threadIdx.x == 0)
		flag = 0;
	__syncthreads();
	if (threadIdx.x == 33) {
		value = 42;
		__threadfence_block();
		flag = 1;
	} else if (threadIdx.x == 0) {
		while (flag == 0)
			;
		*out = value;
	}
}

extern "C" __global__ void endless(int *p)
{
	while (*(volatile int *)p == 0)
		;
}

extern "C" __global__ void hello(int n, const char *s)
{
	printf("hello %d of %u: %s %5.2f %c%% %llx\n", threadIdx.x, n, s, threadIdx.x * 0.5, 'x', 0x123456789abcull);
}

extern "C" __global__ void failing(int limit)
{
	assert((int)threadIdx.x < limit && "too many");
}

extern "C" __global__ void badAddress(int *p, int i)
{
	p[i + threadIdx.x] = 1;
}

extern "C" __global__ void localArray(const int *in, int *out)
{
	int a[16];
	for (int i = 0; i < 16; i++)
		a[i] = in[(threadIdx.x + i) & 31] + i;
	int s = 0;
	for (int i = 0; i < 16; i++)
		s = s * 3 + a[(in[i] + threadIdx.x) & 15];
	out[threadIdx.x] = s;
}
