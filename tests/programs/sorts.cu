// SPDX-License-Identifier: Apache-2.0
// Sorts with CUB and Thrust: kernels that are compiled for a number of threads (__launch_bounds__)
// and take the registers that this leaves.
#include "check.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

namespace {

uint64_t state = 88172645463325252ull;

uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

template <class T>
std::vector<T> random(size_t n, uint64_t below) {
    std::vector<T> v(n);
    for (T &x : v)
        x = (T)(int64_t)(next() % below - below / 2);
    return v;
}

template <class T>
T *upload(const std::vector<T> &v) {
    T *p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(T) + 1));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

template <class T>
std::vector<T> download(const T *p, size_t n) {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

void said(const char *what, size_t n, bool good) {
    printf("%s of %zu: %s\n", what, n, good ? "sorted" : "WRONG");
}

// Runs a function of CUB's twice: for the size of what it needs, and with it.
template <class F>
void twice(F f) {
    size_t bytes = 0;
    CHECK(f(nullptr, bytes));
    void *p;
    CHECK(cudaMalloc(&p, bytes + 1));
    CHECK(f(p, bytes));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(p));
}

template <class T>
void radix(const char *what, size_t n, uint64_t below) {
    std::vector<T> keys = random<T>(n, below);
    std::vector<int> index(n);
    std::iota(index.begin(), index.end(), 0);
    T *in = upload(keys), *out = upload(keys);
    int *from = upload(index), *to = upload(index);
    twice([&](void *p, size_t &bytes) {
        return cub::DeviceRadixSort::SortPairs(p, bytes, in, out, from, to, (int)n);
    });
    std::vector<T> sorted = download(out, n);
    std::vector<int> order = download(to, n);
    std::stable_sort(index.begin(), index.end(), [&](int a, int b) { return keys[a] < keys[b]; });
    bool good = order == index;
    for (size_t i = 0; i < n; i++)
        good = good && sorted[i] == keys[index[i]];
    twice([&](void *p, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeysDescending(p, bytes, in, out, (int)n);
    });
    sorted = download(out, n);
    std::reverse(sorted.begin(), sorted.end());
    good = good && std::is_sorted(sorted.begin(), sorted.end());
    said(what, n, good);
    for (void *p : {(void *)in, (void *)out, (void *)from, (void *)to})
        CHECK(cudaFree(p));
}

struct Less {
    __host__ __device__ bool operator()(const int2 &a, const int2 &b) const {
        return a.x != b.x ? a.x < b.x : a.y < b.y;
    }
};

struct Larger {
    __host__ __device__ bool operator()(float a, float b) const { return a > b; }
};

void merge(size_t n) {
    std::vector<int2> v(n);
    for (int2 &x : v)
        x = make_int2((int)(next() % 100), (int)(next() % 1000000));
    int2 *p = upload(v);
    twice([&](void *temporary, size_t &bytes) {
        return cub::DeviceMergeSort::StableSortKeys(temporary, bytes, p, (int)n, Less());
    });
    std::vector<int2> got = download(p, n);
    std::stable_sort(v.begin(), v.end(), Less());
    said("cub, merge sort", n, std::equal(v.begin(), v.end(), got.begin(), [](int2 a, int2 b) {
             return a.x == b.x && a.y == b.y;
         }));
    CHECK(cudaFree(p));
}

void segments(size_t n, size_t segment) {
    std::vector<int> v = random<int>(n, 1 << 20), begins;
    for (size_t at = 0; at <= n; at += segment)
        begins.push_back((int)at);
    int *in = upload(v), *out = upload(v), *offsets = upload(begins);
    int count = (int)begins.size() - 1;
    twice([&](void *p, size_t &bytes) {
        return cub::DeviceSegmentedSort::SortKeys(p, bytes, in, out, (int)n, count, offsets,
                                                  offsets + 1);
    });
    std::vector<int> got = download(out, n);
    for (int i = 0; i < count; i++)
        std::sort(v.begin() + begins[i], v.begin() + begins[i + 1]);
    said("cub, segments", n, std::equal(v.begin(), v.begin() + begins.back(), got.begin()));
    for (void *p : {(void *)in, (void *)out, (void *)offsets})
        CHECK(cudaFree(p));
}

template <class T, class Order>
void withThrust(const char *what, size_t n, Order before) {
    std::vector<T> v = random<T>(n, 1 << 24);
    thrust::device_vector<T> keys(v.begin(), v.end());
    thrust::device_vector<int> index(n);
    thrust::sequence(index.begin(), index.end());
    thrust::sort_by_key(keys.begin(), keys.end(), index.begin(), before);
    std::vector<T> got(n);
    thrust::copy(keys.begin(), keys.end(), got.begin());
    std::sort(v.begin(), v.end(), before);
    bool good = got == v;
    thrust::sort(index.begin(), index.end());
    std::vector<int> order(n);
    thrust::copy(index.begin(), index.end(), order.begin());
    for (size_t i = 0; i < n; i++)
        good = good && order[i] == (int)i;
    said(what, n, good);
}

}  // namespace

int main() {
    for (size_t n : {1000, 60000}) {
        radix<unsigned>("cub, pairs of 32 bits", n, 1u << 31);
        radix<double>("cub, pairs of doubles", n, 1u << 20);
    }
    radix<unsigned char>("cub, pairs of bytes", 5000, 256);
    merge(20000);
    segments(20000, 100);
    withThrust<int>("thrust, by radix", 40000, thrust::less<int>());
    withThrust<float>("thrust, by merging", 3000, Larger());
    return 0;
}
