// SPDX-License-Identifier: Apache-2.0
// Mathematical functions in float and double against the CPU's, each within an error of its own,
// in units of the last place or (for the fast versions) absolutely.
// "bits" prints a hash of the exact results too, which only the same GPU repeats.
#include "check.h"
#include <cmath>
#include <cstring>
#include <vector>

const int n = 400;

static uint64_t seen = hash("", 0);

template <typename T, typename F> __global__ void evaluate(F f, const T *x, T *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = f(x[i]);
}

static double ulp(double x, float) {
    return fmax(nextafterf(fabsf(x), INFINITY) - fabsf(x), 0x1p-149);
}
static double ulp(double x, double) { return nextafter(fabs(x), INFINITY) - fabs(x); }

// compare evaluates f on the device at points from low to high and measures it against the CPU's.
template <typename T, typename F, typename G>
void compare(const char *name, double bound, bool absolute, double low, double high, F f, G cpu) {
    std::vector<T> x(n), y(n);
    for (int i = 0; i < n; i++) x[i] = T(low + (high - low) * i / (n - 1));
    T *dx, *dy;
    CHECK(cudaMalloc(&dx, n * sizeof(T)));
    CHECK(cudaMalloc(&dy, n * sizeof(T)));
    CHECK(cudaMemcpy(dx, x.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    evaluate<T><<<4, 64>>>(f, dx, dy);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), dy, n * sizeof(T), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    double worst = 0;
    for (int i = 0; i < n; i++) {
        long double want = cpu((long double)x[i]);
        double off = fabsl(y[i] - want);
        if (!(off <= 1e300)) off = 1e300;
        worst = fmax(worst, absolute ? off : off / ulp(double(want), T()));
    }
    seen = hash(y.data(), n * sizeof(T), seen);
    printf("%-12s %s\n", name, worst <= bound ? "within its bound" : "beyond its bound");
    if (worst > bound) fprintf(stderr, "%s: error %g, bound %g\n", name, worst, bound);
    REQUIRE(worst <= bound);
}

#define BOTH(f, ulps32, ulps64, low, high)                                               \
    compare<float>(                                                                      \
        #f "f", ulps32 + 0.5, false, low, high, [] __device__(float x) { return f(x); }, \
        [](long double x) { return f##l(x); });                                          \
    compare<double>(                                                                     \
        #f, ulps64 + 0.5, false, low, high, [] __device__(double x) { return f(x); },    \
        [](long double x) { return f##l(x); })

#define FAST(f, g, bound, low, high)                                                              \
    compare<float>(#f, bound, true, low, high, [] __device__(float x) { return f(x); },           \
                   [](long double x) { return g(double(x)); })

int main(int argc, char **argv) {
    BOTH(sqrt, 0, 0, 0, 1000);
    BOTH(cbrt, 1, 1, -100, 100);
    BOTH(exp, 2, 1, -20, 20);
    BOTH(exp2, 2, 1, -30, 30);
    BOTH(expm1, 1, 1, -5, 5);
    BOTH(log, 1, 1, 0.001, 1000);
    BOTH(log2, 1, 1, 0.001, 1000);
    BOTH(log10, 2, 1, 0.001, 1000);
    BOTH(log1p, 1, 1, -0.9, 100);
    BOTH(sin, 2, 2, -100, 100);
    BOTH(cos, 2, 2, -100, 100);
    BOTH(tan, 4, 2, -1.5, 1.5);
    BOTH(asin, 2, 2, -1, 1);
    BOTH(acos, 2, 2, -1, 1);
    BOTH(atan, 2, 2, -50, 50);
    BOTH(sinh, 3, 2, -5, 5);
    BOTH(tanh, 2, 2, -5, 5);
    BOTH(erf, 2, 2, -3, 3);
    BOTH(erfc, 4, 5, -3, 5);
    BOTH(tgamma, 5, 10, 0.5, 20);
    BOTH(floor, 0, 0, -10, 10);
    BOTH(rint, 0, 0, -10, 10);
    FAST(__expf, exp, 0.01, -8, 8);
    FAST(__logf, log, 1e-5, 0.1, 10);
    FAST(__sinf, sin, 1e-5, -3, 3);
    FAST(__cosf, cos, 1e-5, -3, 3);
    FAST(rsqrtf, 1 / sqrt, 1e-5, 0.1, 100);
    FAST(__frcp_rn, 1.0 /, 1e-5, 0.1, 100);
    if (argc > 1 && !strcmp(argv[1], "bits")) printf("hash %016llx\n", (unsigned long long)seen);
}
