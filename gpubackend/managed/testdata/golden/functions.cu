// SPDX-License-Identifier: Apache-2.0
// Pointers to functions for the tests of package managed. nvcc 12.4 made of it:
//   -arch=sm_90 -cubin -DSTORES -o whole.cubin functions.cu
//   -arch=sm_90 -cubin -DSTORES -G -ptx -o functions.ptx functions.cu
//   -rdc=true -arch=sm_90 -cubin -DSTORES -o stored.o functions.cu, and of that
//   -dlink -arch=sm_90 -cubin -o stored.cubin stored.o
//   -rdc=true -arch=sm_80 -cubin -o called.o functions.cu, and of that
//   -dlink -arch=sm_80 -cubin -o called.cubin called.o
typedef int (*Function)(int);

extern "C" __device__ __noinline__ int twice(int x)
{
	return 2 * x;
}

extern "C" __global__ void call(Function *from, int *result)
{
	*result = (*from)(*result) + twice(1);
}

#ifdef STORES
extern "C" __global__ void store(Function *to)
{
	*to = twice;
}
#endif
