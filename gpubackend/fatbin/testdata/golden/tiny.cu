// SPDX-License-Identifier: Apache-2.0
// tiny.fatbin is: nvcc -fatbin -gencode arch=compute_75,code=compute_75 -gencode arch=compute_80,code=sm_80 tiny.cu

extern "C" __global__ void tiny(int *p)
{
	p[threadIdx.x] *= 3;
	p[threadIdx.x + 32] *= 5;
	p[threadIdx.x + 64] *= 7;
}
