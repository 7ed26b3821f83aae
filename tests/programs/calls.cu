// SPDX-License-Identifier: Apache-2.0
// Calls in device code: recursion, function pointers, virtual functions, structures by value.
#include "check.h"
#include <vector>

typedef int (*Operation)(int, int);

__device__ __noinline__ int plus(int a, int b) { return a + b; }
__device__ __noinline__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int minus(int a, int b) { return a - b; }
__device__ Operation operations[] = {plus, times, minus};

__host__ __device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

struct Matrix {
    double cell[2][2];
};

__host__ __device__ __noinline__ Matrix multiply(Matrix a, Matrix b) {
    Matrix c;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            c.cell[i][j] = a.cell[i][0] * b.cell[0][j] + a.cell[i][1] * b.cell[1][j];
    return c;
}

struct Shape {
    __device__ virtual int area() const = 0;
};
struct Square : Shape {
    int side;
    __device__ Square(int s) : side(s) {}
    __device__ int area() const override { return side * side; }
};
struct Box : Shape {
    int w, h;
    __device__ Box(int w, int h) : w(w), h(h) {}
    __device__ int area() const override { return w * h; }
};

__global__ void run(int *out, double *fibonacci) {
    int t = threadIdx.x, *o = out + 4 * t;
    o[0] = operations[t % 3](t, 7);
    o[1] = ackermann(2, t % 5);
    Square square(t);
    Box box(t, 3);
    const Shape *shape = t % 2 ? (const Shape *)&square : &box;
    o[2] = shape->area();
    int table[20];
    for (int i = 0; i < 20; i++) table[(i * 7 + t) % 20] = i;
    o[3] = table[t % 20];
    Matrix m = {{{1, 1}, {1, 0}}}, power = {{{1, 0}, {0, 1}}};
    for (int i = 0; i < t; i++) power = multiply(power, m);
    fibonacci[t] = power.cell[0][1];
}

int main() {
    const int threads = 64;
    int *dout;
    double *dfib, a = 0, b = 1;
    std::vector<int> out(4 * threads);
    std::vector<double> fib(threads);
    CHECK(cudaMalloc(&dout, out.size() * sizeof(int)));
    CHECK(cudaMalloc(&dfib, fib.size() * sizeof(double)));
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
    run<<<1, threads>>>(dout, dfib);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(fib.data(), dfib, fib.size() * sizeof(double), cudaMemcpyDeviceToHost));
    for (int t = 0; t < threads; t++) {
        const int *o = &out[4 * t];
        REQUIRE(o[0] == (t % 3 == 0 ? t + 7 : t % 3 == 1 ? t * 7 : t - 7));
        REQUIRE(o[1] == ackermann(2, t % 5) && o[2] == (t % 2 ? t * t : t * 3) && o[3] == 0);
        REQUIRE(fib[t] == a);
        b += a;
        a = b - a;
    }
    printf("%d threads, the last Fibonacci number is %.0f\n", threads, fib[threads - 1]);
}
