// SPDX-License-Identifier: Apache-2.0
// Plain variables for the tests of package managed. nvcc 12.4 made of it:
//   -arch=sm_90 -cubin -o plain.cubin plain.cu
//   -arch=sm_90 -cubin -DADDRESS -o constants.cubin plain.cu
//   -rdc=true -arch=sm_90 -cubin -DFUNCTIONS -o functions.o plain.cu, and of that
//   -dlink -arch=sm_90 -cubin -o functions.cubin functions.o
extern "C" {
__device__ int counter;
__device__ int seven = 7;
__device__ int *place = &counter;
__constant__ int table[4] = { 1, 2, 3 };
#ifdef FUNCTIONS
__device__ __noinline__ int twice(int x)
{
	return 2 * x;
}
__device__ int (*pointer)(int) = twice;
#endif
}
static __device__ double hidden[5] = { 1.5 };

extern "C" __global__ void change(const char **text, int index, const int **where)
{
	*text = "a text";
	counter += seven + table[index & 3];
	*place += (int)hidden[index];
#ifdef ADDRESS
	*where = &table[index];
#endif
#ifdef FUNCTIONS
	counter += pointer(index);
#endif
}
