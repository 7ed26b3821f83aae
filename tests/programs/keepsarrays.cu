// SPDX-License-Identifier: Apache-2.0
// Arrays, textures and surfaces that keep what is in them, round after round: as many as the
// argument says, 0 for no end. Each round changes an array by its surface, a level of a mipmapped
// array and linear memory by copies, reads all of them by textures, and makes another texture.
#include "check.h"
#include <cstdint>
#include <vector>

const int side = 16, cells = side * side;

__global__ void step(cudaSurfaceObject_t s, float round) {
    float v;
    surf2Dread(&v, s, int(threadIdx.x * 4), int(threadIdx.y));
    surf2Dwrite(v / 2 + round + threadIdx.x, s, int(threadIdx.x * 4), int(threadIdx.y));
}

// What each of the textures has at the thread's place.
__global__ void look(cudaTextureObject_t plain, cudaTextureObject_t between,
                     cudaTextureObject_t levels, cudaTextureObject_t linear, float *out) {
    const int x = threadIdx.x, y = threadIdx.y, i = y * side + x;
    out[i] = tex2D<float>(plain, x, y);
    out[cells + i] = tex2D<float>(between, x + 1.0f, y + 0.5f);
    // A lower level's places are known by normalized coordinates alone.
    out[2 * cells + i] = tex2DLod<float>(levels, (x / 2 + 0.5f) / (side / 2),
                                         (y / 2 + 0.5f) / (side / 2), 1);
    out[3 * cells + i] = tex1Dfetch<float>(linear, i);
}

static cudaTextureObject_t texture(const cudaResourceDesc &r, bool filters, int levels) {
    cudaTextureDesc d = {};
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
    d.filterMode = filters ? cudaFilterModeLinear : cudaFilterModePoint;
    d.maxMipmapLevelClamp = levels;
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    std::vector<float> host(cells), has(4 * cells), want(4 * cells);
    cudaArray_t array, level;
    CHECK(cudaMallocArray(&array, &format, side, side, cudaArraySurfaceLoadStore));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, host.data(), side * 4, side * 4, side,
                              cudaMemcpyHostToDevice));
    cudaMipmappedArray_t mipmapped;
    CHECK(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(side, side, 0), 3));
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmapped, 1));
    float *linear, *out;
    CHECK(cudaMalloc(&linear, cells * 4));
    CHECK(cudaMalloc(&out, 4 * cells * 4));

    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = array;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &r));
    const cudaTextureObject_t plain = texture(r, false, 0), between = texture(r, true, 0);
    cudaResourceDesc m = {}, l = {};
    m.resType = cudaResourceTypeMipmappedArray;
    m.res.mipmap.mipmap = mipmapped;
    cudaResourceDesc known;
    l.resType = cudaResourceTypeLinear;
    l.res.linear.devPtr = linear;
    l.res.linear.desc = format;
    l.res.linear.sizeInBytes = cells * 4;
    cudaTextureDesc d = {};
    d.addressMode[0] = d.addressMode[1] = cudaAddressModeClamp;
    d.maxMipmapLevelClamp = 2;
    cudaTextureObject_t levels, whole;
    CHECK(cudaCreateTextureObject(&whole, &l, &d, nullptr));
    d.normalizedCoords = 1;
    CHECK(cudaCreateTextureObject(&levels, &m, &d, nullptr));

    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        const dim3 block(side, side);
        step<<<1, block>>>(surface, float(i % 100));
        if (i % 3 == 0) {
            for (int k = 0; k < cells; k++) host[k] = float(i % 1000 + k);
            CHECK(cudaMemcpy2DToArray(level, 0, 0, host.data(), side / 2 * 4, side / 2 * 4,
                                      side / 2, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(linear, host.data(), cells * 4, cudaMemcpyHostToDevice));
        }
        look<<<1, block>>>(plain, between, levels, whole, out);
        CHECK(cudaMemcpy(has.data(), out, 4 * cells * 4, cudaMemcpyDeviceToHost));
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                want[y * side + x] = want[y * side + x] / 2 + float(i % 100) + x;
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const int k = y * side + x, next = y * side + (x + 1 < side ? x + 1 : x);
                REQUIRE(has[k] == want[k]);
                REQUIRE(fabsf(has[cells + k] - (want[k] + want[next]) / 2) < 0.01f);
                const int half = (y / 2) * (side / 2) + x / 2;
                REQUIRE(has[2 * cells + k] == host[half]);
                REQUIRE(has[3 * cells + k] == host[k]);
            }
        CHECK(cudaGetTextureObjectResourceDesc(&known, levels));
        REQUIRE(known.res.mipmap.mipmap == mipmapped);
        const cudaTextureObject_t another = texture(r, false, 0);
        for (cudaTextureObject_t t : {plain, between, levels, whole}) REQUIRE(another != t);
        CHECK(cudaDestroyTextureObject(another));
        cudaArray_t fresh;
        CHECK(cudaMallocArray(&fresh, &format, side, side));
        REQUIRE(fresh != array && fresh != level);
        CHECK(cudaMemcpy2DArrayToArray(fresh, 0, 0, array, 0, 0, side * 4, side));
        CHECK(cudaFreeArray(fresh));
    }
    printf("%d rounds of 5 textures and surfaces\n", i);
}
