// SPDX-License-Identifier: Apache-2.0
// Large copies between ordinary memory and every place that the device has: memory of its own, a
// part of a shared piece, a variable, a pool, rows with gaps, an array; memory that comes and goes
// at one address; and copies that have to wait for kernels before them, and kernels for copies.
#include "check.h"
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

const size_t large = (size_t(12) << 20) + 4096 + 40, lone = size_t(3) << 20;
const size_t guard = 64;
const unsigned char mark = 0x5a;

__device__ unsigned char variable[large + 2 * guard];

static uint64_t seed = 1;

static void fill(unsigned char *p, size_t size) {
    for (size_t i = 0; i + 8 <= size; i += 8) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        memcpy(p + i, &seed, 8);
    }
    for (size_t i = size & ~size_t(7); i < size; i++) p[i] = (unsigned char)(seed >> i % 8 * 8);
}

static bool marked(const unsigned char *p) {
    for (size_t i = 0; i < guard; i++)
        if (p[i] != mark) return false;
    return true;
}

struct Host {
    unsigned char *whole, *at;
    size_t size;
    explicit Host(size_t size)
        : whole((unsigned char *)malloc(size + 2 * guard)), at(whole + guard), size(size) {
        memset(whole, mark, size + 2 * guard);
    }
    bool guarded() const { return marked(whole) && marked(at + size); }
    ~Host() { free(whole); }
};

// linear copies there and back, and looks for what else was written, on the device as well.
static bool linear(unsigned char *device, size_t size) {
    Host from(size), to(size), around(2 * guard);
    fill(from.at, size);
    CHECK(cudaMemset(device, mark, guard));
    CHECK(cudaMemset(device + guard + size, mark, guard));
    CHECK(cudaMemcpy(device + guard, from.at, size, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(to.at, device + guard, size, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(around.at, device, guard, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(around.at + guard, device + guard + size, guard, cudaMemcpyDeviceToHost));
    return !memcmp(from.at, to.at, size) && from.guarded() && to.guarded() && marked(around.at) &&
           marked(around.at + guard);
}

static void places() {
    unsigned char *p, *small[3];
    CHECK(cudaMalloc(&p, large + 2 * guard));
    printf("memory of its own: %s\n", linear(p, large) ? "exact" : "WRONG");
    CHECK(cudaFree(p));
    for (auto &s : small) CHECK(cudaMalloc(&s, lone + 2 * guard));
    bool exact = true;
    for (auto &s : small) exact &= linear(s, lone - 7);
    printf("parts of a piece: %s\n", exact ? "exact" : "WRONG");
    for (auto &s : small) CHECK(cudaFree(s));
    CHECK(cudaGetSymbolAddress((void **)&p, variable));
    printf("a variable: %s\n", linear(p, large) ? "exact" : "WRONG");
    CHECK(cudaMallocAsync(&p, large + 2 * guard, 0));
    printf("a pool: %s\n", linear(p, large) ? "exact" : "WRONG");
    CHECK(cudaFreeAsync(p, 0));
}

static void rows() {
    const size_t width = 5000, height = 1200;
    unsigned char *p;
    size_t pitch;
    Host from(width * height), to(width * height);
    fill(from.at, from.size);
    CHECK(cudaMallocPitch(&p, &pitch, width, height));
    CHECK(cudaMemcpy2D(p, pitch, from.at, width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(to.at, width, p, pitch, width, height, cudaMemcpyDeviceToHost));
    bool exact = !memcmp(from.at, to.at, to.size) && to.guarded();
    printf("rows with gaps: %s\n", exact ? "exact" : "WRONG");
    // Without gaps on the device, with gaps in the host's memory.
    memset(to.at, mark, to.size);
    CHECK(cudaMemcpy2D(p, width / 2, from.at, width, width / 2, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(to.at, width, p, width / 2, width / 2, height, cudaMemcpyDeviceToHost));
    exact = to.guarded();
    for (size_t y = 0; y < height; y++)
        exact &= !memcmp(to.at + y * width, from.at + y * width, width / 2) &&
                 marked(to.at + y * width + width / 2);
    printf("rows with gaps in the host's memory: %s\n", exact ? "exact" : "WRONG");
    CHECK(cudaFree(p));
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<uchar1>();
    CHECK(cudaMallocArray(&array, &format, width, height));
    memset(to.at, mark, to.size);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, from.at, width, width, height, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(to.at, width, array, 0, 0, width, height, cudaMemcpyDeviceToHost));
    printf("an array: %s\n", !memcmp(from.at, to.at, to.size) && to.guarded() ? "exact" : "WRONG");
    CHECK(cudaFreeArray(array));
}

// Memory comes and goes: what is at an address now is not what was copied to before.
static void turnover() {
    bool exact = true;
    for (int i = 0; i < 6; i++) {
        unsigned char *a, *b;
        CHECK(cudaMalloc(&a, large + 2 * guard));
        exact &= linear(a, large);
        CHECK(cudaMalloc(&b, large + 2 * guard));
        CHECK(cudaFree(a));
        exact &= linear(b, large - i);
        CHECK(cudaFree(b));
    }
    printf("memory that comes and goes: %s\n", exact ? "exact" : "WRONG");
}

// late sums words after it has been busy for a while, so that who comes next must wait to change
// them.
__global__ void late(const unsigned *words, size_t n, unsigned rounds, unsigned *sum) {
    unsigned x = threadIdx.x;
    for (unsigned i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    unsigned s = x == 12345 ? 1 : 0; // hardly ever
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) s += words[i];
    atomicAdd(sum, s);
}

__global__ void stamp(unsigned *words, size_t n, unsigned rounds, unsigned value) {
    unsigned x = threadIdx.x;
    for (unsigned i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) words[i] = value + (x == 12345);
}

static void order(size_t size, unsigned rounds, cudaStream_t stream) {
    const size_t n = size / 4, few = 1 << 14; // summed: the last words, which arrive last
    unsigned *words, *sum, result[2];
    Host first(size), second(size), back(size);
    CHECK(cudaMalloc(&words, size));
    CHECK(cudaMalloc(&sum, 2 * sizeof *sum));
    for (int i = 0; i < 4; i++) {
        fill(first.at, size);
        fill(second.at, size);
        CHECK(cudaMemsetAsync(sum, 0, 2 * sizeof *sum, stream));
        CHECK(cudaMemcpyAsync(words, first.at, size, cudaMemcpyHostToDevice, stream));
        late<<<1, 64, 0, stream>>>(words + n - few, few, rounds, sum);
        CHECK(cudaMemcpyAsync(words, second.at, size, cudaMemcpyHostToDevice, stream));
        memset(second.at, 0, 4096); // its own again
        late<<<1, 64, 0, stream>>>(words + n - few, few, 1, sum + 1);
        CHECK(cudaMemcpyAsync(result, sum, sizeof result, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        unsigned want[2] = {0, 0}, word;
        for (size_t w = n - few; w < n; w++) {
            memcpy(&word, first.at + 4 * w, 4), want[0] += word;
            memcpy(&word, second.at + 4 * w, 4), want[1] += word;
        }
        REQUIRE(result[0] == want[0]);
        REQUIRE(result[1] == want[1]);
        stamp<<<1, 64, 0, stream>>>(words + n - few, few, rounds, i);
        CHECK(cudaMemcpyAsync(back.at, words, size, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        REQUIRE(!memcmp(back.at + 4096, second.at + 4096, size - 4 * few - 4096));
        for (size_t w = n - few; w < n; w++) {
            memcpy(&word, back.at + 4 * w, 4);
            REQUIRE(word == unsigned(i));
        }
        REQUIRE(back.guarded());
    }
    CHECK(cudaFree(words));
    CHECK(cudaFree(sum));
}

// Several threads at once, each with memory of its own in pieces that they share.
static void threads() {
    std::vector<std::thread> all;
    std::vector<int> exact(4);
    for (size_t t = 0; t < exact.size(); t++)
        all.emplace_back([&exact, t] {
            unsigned char *p;
            Host from(lone), to(lone);
            CHECK(cudaMalloc(&p, lone));
            bool good = true;
            for (int i = 0; i < 5; i++) {
                for (size_t b = 0; b < lone; b++) from.at[b] = (unsigned char)(b * (2 * t + 3) + i);
                CHECK(cudaMemcpy(p, from.at, lone, cudaMemcpyHostToDevice));
                CHECK(cudaMemcpy(to.at, p, lone, cudaMemcpyDeviceToHost));
                good &= !memcmp(from.at, to.at, lone) && to.guarded();
            }
            CHECK(cudaFree(p));
            exact[t] = good;
        });
    for (auto &t : all) t.join();
    bool good = true;
    for (int e : exact) good &= e;
    printf("four threads: %s\n", good ? "exact" : "WRONG");
}

int main() {
    places();
    rows();
    turnover();
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (size_t size : {large & ~size_t(7), lone}) {
        order(size, 30000, 0);
        order(size, 30000, stream);
    }
    printf("copies and kernels: in order\n");
    threads();
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
