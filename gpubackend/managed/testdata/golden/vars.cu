// SPDX-License-Identifier: Apache-2.0
// Managed variables for the tests of package managed. nvcc 12.4 made of it:
//   -fatbin -gencode arch=compute_90,code=[sm_90,compute_90] -o vars.fatbin vars.cu
//   -rdc=true -arch=sm_90 -cubin -o object.cubin vars.cu
//   -rdc=true -arch=sm_75 -cubin -o object75.cubin vars.cu
//   -rdc=true -arch=sm_90 -c -o vars.o vars.cu, and -dlink -arch=sm_90 -cubin -o linked.cubin vars.o
extern "C" {
__device__ int plain = 3;
__managed__ int counter = 5;
__managed__ double table[7] = {1.5, 2.5};
__managed__ unsigned numbers[500];
__managed__ int *toPlain = &plain;
__managed__ char flag;

__global__ void change(int **where) {
    numbers[threadIdx.x] += counter;
    table[3] = numbers[7];
    *toPlain += flag;
    *where = &counter;
}
}
