// SPDX-License-Identifier: Apache-2.0
// Half precision: conversions in all roundings, arithmetic one and two at a time, comparisons.
#include "check.h"
#include <cmath>
#include <cuda_fp16.h>
#include <vector>

// The conversion of every one of the 65536 values to float and back must give it again.
__global__ void everyValue(unsigned *wrong) {
    unsigned short bits = blockIdx.x * blockDim.x + threadIdx.x;
    float x = __half2float(__ushort_as_half(bits));
    bool nan = (bits & 0x7fff) > 0x7c00;
    unsigned short back = __half_as_ushort(__float2half(x));
    if (nan ? x == x : back != bits) atomicAdd(wrong, 1);
}

__global__ void compute(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half a = __float2half(in[2 * i]), b = __float2half(in[2 * i + 1]);
    float *o = out + 8 * i;
    o[0] = __half2float(__hadd(a, b));
    o[1] = __half2float(__hmul(a, b));
    o[2] = __half2float(__hfma(a, b, a));
    __half2 p = __halves2half2(a, b), q = __halves2half2(b, b);
    __half2 sum = __hadd2(p, q), product = __hfma2(p, q, p);
    o[3] = __low2float(sum);
    o[4] = __high2float(sum);
    o[5] = __low2float(product);
    o[6] = (__hlt(a, b) ? 1 : 0) + (__heq(a, b) ? 2 : 0) + (__hge(a, b) ? 4 : 0);
    o[7] = __half2float(__float2half_rz(in[2 * i]));
}

// rounded is x rounded to half's 11 bits, for normal numbers (ties to even).
static float rounded(double x) {
    if (x == 0) return 0;
    int e;
    frexp(x, &e);
    double unit = ldexp(1, e - 11);
    return nearbyint(x / unit) * unit;
}

static float truncated(double x) {
    if (x == 0) return 0;
    int e;
    frexp(x, &e);
    double unit = ldexp(1, e - 11);
    return trunc(x / unit) * unit;
}

int main() {
    unsigned *dwrong, wrong;
    CHECK(cudaMalloc(&dwrong, sizeof wrong));
    CHECK(cudaMemset(dwrong, 0, sizeof wrong));
    everyValue<<<256, 256>>>(dwrong);
    CHECK(cudaMemcpy(&wrong, dwrong, sizeof wrong, cudaMemcpyDeviceToHost));
    printf("65536 values, %u wrong\n", wrong);
    REQUIRE(wrong == 0);

    const int n = 2000;
    std::vector<float> in(2 * n), out(8 * n);
    Random random{13};
    for (float &x : in) x = (int(random.below(2000001)) - 1000000) / 65536.0f + 20;
    float *din, *dout;
    CHECK(cudaMalloc(&din, in.size() * sizeof(float)));
    CHECK(cudaMalloc(&dout, out.size() * sizeof(float)));
    CHECK(cudaMemcpy(din, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice));
    compute<<<(n + 127) / 128, 128>>>(din, dout, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        double a = rounded(in[2 * i]), b = rounded(in[2 * i + 1]);
        const float *o = &out[8 * i];
        REQUIRE(o[0] == rounded(a + b) && o[3] == o[0]);
        REQUIRE(o[1] == rounded(a * b) && o[2] == rounded(a * b + a));
        REQUIRE(o[4] == rounded(b + b) && o[5] == o[2]);
        REQUIRE(o[6] == (a < b) + 2 * (a == b) + 4 * (a >= b));
        REQUIRE(o[7] == truncated(in[2 * i]));
    }
    printf("%d pairs: right\n", n);
}
