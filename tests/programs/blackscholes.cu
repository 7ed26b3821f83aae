// SPDX-License-Identifier: Apache-2.0
// Prices options by the Black-Scholes formula in floats, against doubles on the CPU.
// "bits" prints a hash of the exact results too, which only the same GPU repeats.
#include "check.h"
#include <cmath>
#include <cstring>
#include <vector>

template <typename T> struct Option {
    T call, put;
};

template <typename T> __host__ __device__ T normal(T x) {
    return T(0.5) * erfc(-x * T(0.70710678118654752));
}

template <typename T> __host__ __device__ Option<T> price(T stock, T strike, T years) {
    const T rate = T(0.02), volatility = T(0.3);
    T root = sqrt(years);
    T d1 =
        (log(stock / strike) + (rate + volatility * volatility / 2) * years) / (volatility * root);
    T d2 = d1 - volatility * root;
    T discounted = strike * exp(-rate * years);
    T call = stock * normal(d1) - discounted * normal(d2);
    return {call, call + discounted - stock};
}

__global__ void priceAll(const float *stock, const float *strike, const float *years,
                         Option<float> *out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = price(stock[i], strike[i], years[i]);
}

static float *upload(const std::vector<float> &v) {
    float *p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(float)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv) {
    const int n = 20000;
    std::vector<float> stock(n), strike(n), years(n);
    std::vector<Option<float>> got(n);
    Random random{7};
    for (int i = 0; i < n; i++) {
        stock[i] = 5 + random.below(2500) * 0.01f;
        strike[i] = 1 + random.below(9900) * 0.01f;
        years[i] = 0.25f + random.below(975) * 0.01f;
    }
    Option<float> *out;
    CHECK(cudaMalloc(&out, n * sizeof *out));
    priceAll<<<48, 128>>>(upload(stock), upload(strike), upload(years), out, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), out, n * sizeof *out, cudaMemcpyDeviceToHost));

    double worst = 0, calls = 0;
    for (int i = 0; i < n; i++) {
        Option<double> want = price<double>(stock[i], strike[i], years[i]);
        worst = fmax(worst, fmax(fabs(got[i].call - want.call), fabs(got[i].put - want.put)));
        calls += got[i].call;
    }
    REQUIRE(worst < 1e-4);
    printf("%d options, mean call %.3f, every error below 1e-4\n", n, calls / n);
    if (argc > 1 && !strcmp(argv[1], "bits"))
        printf("hash %016llx\n", (unsigned long long)hash(got.data(), n * sizeof *out));
}
