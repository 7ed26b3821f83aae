// SPDX-License-Identifier: Apache-2.0
// Many small pieces of pinned and managed memory at a time, each copied from and to, and written in
// place, with guard bytes around what is used; freed and allocated anew in any order.
#include "check.h"
#include <algorithm>
#include <random>
#include <vector>

struct Piece {
    unsigned char *host;
    size_t size;  // and GUARD before and after
    bool managed;
    std::vector<unsigned char> want;
};

static const size_t GUARD = 16;
static std::mt19937 random_(20161);

__global__ void flip(unsigned char *p, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) p[i] ^= 0x5a;
}

static Piece make() {
    Piece p;
    p.size = random_() % 50 == 0 ? 200000 : 1 + random_() % 9000;
    p.managed = random_() % 4 == 0;
    const size_t all = p.size + 2 * GUARD;
    if (p.managed)
        CHECK(cudaMallocManaged(&p.host, all));
    else
        CHECK(cudaMallocHost(&p.host, all));
    p.want.resize(all);
    for (auto &c : p.want) c = random_();
    std::copy(p.want.begin(), p.want.end(), p.host);
    return p;
}

static void drop(Piece &p) {
    if (p.managed)
        CHECK(cudaFree(p.host));
    else
        CHECK(cudaFreeHost(p.host));
}

// use has every piece copied to the device, changed there, and copied back, and then changed in
// place.
static void use(std::vector<Piece> &pieces, unsigned char *device, size_t each) {
    for (size_t i = 0; i < pieces.size(); i++) {
        Piece &p = pieces[i];
        unsigned char *d = device + i * each;
        CHECK(cudaMemcpyAsync(d, p.host + GUARD, p.size, cudaMemcpyDefault, 0));
        flip<<<1, 128>>>(d, p.size);
        CHECK(cudaMemcpyAsync(p.host + GUARD, d, p.size, cudaMemcpyDefault, 0));
        flip<<<1, 128>>>(p.host + GUARD, p.size / 2);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (Piece &p : pieces) {
        for (size_t i = p.size / 2; i < p.size; i++) p.want[GUARD + i] ^= 0x5a;
        REQUIRE(std::equal(p.want.begin(), p.want.end(), p.host));
    }
}

int main() {
    const size_t count = 1500, each = 200064;
    unsigned char *device;
    CHECK(cudaMalloc(&device, count * each));
    std::vector<Piece> pieces;
    for (size_t i = 0; i < count; i++) pieces.push_back(make());
    use(pieces, device, each);
    std::shuffle(pieces.begin(), pieces.end(), random_);
    for (size_t i = 0; i < count / 2; i++) {
        drop(pieces[i]);
        pieces[i] = make();
    }
    use(pieces, device, each);
    size_t managed = 0;
    for (Piece &p : pieces) {
        cudaPointerAttributes a;
        CHECK(cudaPointerGetAttributes(&a, p.host + p.size));
        REQUIRE(a.type == (p.managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost) &&
                a.devicePointer == p.host + p.size);
        managed += p.managed;
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    for (Piece &p : pieces) drop(p);
    CHECK(cudaFree(device));
    printf("%zu pieces, %zu of them managed: all right\n", count, managed);
}
