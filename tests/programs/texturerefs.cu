// SPDX-License-Identifier: Apache-2.0
// Texture and surface references of the runtime, which CUDA 12 has no more: texture<> and
// surface<>.
#include "check.h"
#include <cmath>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#pragma nv_diag_suppress 1215

static texture<float, cudaTextureType1D> line;
static texture<uchar4, cudaTextureType2D, cudaReadModeNormalizedFloat> image;
static texture<float, cudaTextureType2D> smooth;
static texture<int, cudaTextureType3D> volume;
static texture<float, cudaTextureType2DLayered> layers;
static texture<float, cudaTextureType2D> levels;
static texture<float, cudaTextureType2D> quads;
static surface<void, cudaSurfaceType2D> board;

static __global__ void fetchLine(float *out, int first, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch(line, first + i);
}

static __global__ void readImage(float4 *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D(image, x + 0.5f, y + 0.5f);
}

static __global__ void readSmooth(float *out, float first, float step, float y) {
    out[threadIdx.x] = tex2D(smooth, first + threadIdx.x * step, y);
}

static __global__ void readVolume(int *out, int w, int h) {
    int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    out[(z * h + y) * w + x] = tex3D(volume, x + 0.5f, y + 0.5f, z + 0.5f);
}

static __global__ void readLayers(float *out, int w, int h) {
    int x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    out[(z * h + y) * w + x] = tex2DLayered(layers, x + 0.5f, y + 0.5f, z);
}

static __global__ void readLevel(float *out, float level) {
    out[threadIdx.x] = tex2DLod(levels, (threadIdx.x + 0.5f) / blockDim.x, 0.5f, level);
}

static __global__ void readQuads(float4 *out, int w) {
    int x = threadIdx.x;
    if (x + 1 < w) out[x] = tex2Dgather(quads, x + 1.0f, 1.0f, 0);
}

static __global__ void bump(int w, int more) {
    int x = threadIdx.x, y = blockIdx.x, v;
    if (x >= w) return;
    surf2Dread(&v, board, x * 4, y);
    surf2Dwrite(v + more, board, x * 4, y);
    surf2Dwrite(-1, board, (w + x) * 4, y, cudaBoundaryModeZero); // beyond the edge: nothing
}

template <typename T> static std::vector<T> fetched(const T *p, size_t n) {
    std::vector<T> v(n);
    CHECK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

// memory returns device memory of n elements, surrounded by others.
template <typename T> struct Memory {
    T *all, *p;
    explicit Memory(size_t n) {
        CHECK(cudaMalloc(&all, n * sizeof(T) + 1024));
        CHECK(cudaMemset(all, 0xee, n * sizeof(T) + 1024));
        p = all + 512 / sizeof(T);
    }
    ~Memory() { CHECK(cudaFree(all)); }
};

static void linear() {
    const int n = 3000;
    std::vector<float> in(n);
    Random random = {21};
    for (auto &v : in) v = float(random.below(1 << 20));
    Memory<float> memory(n), out(n);
    CHECK(cudaMemcpy(memory.p, in.data(), n * 4, cudaMemcpyHostToDevice));
    size_t offset = 99;
    CHECK(cudaBindTexture(&offset, line, memory.p, n * 4));
    REQUIRE(offset % 4 == 0);
    fetchLine<<<12, 256>>>(out.p, int(offset / 4), n);
    REQUIRE(fetched(out.p, n) == in);
    // From a place that isn't aligned, the offset is to be added.
    CHECK(cudaBindTexture(&offset, line, memory.p + 7, (n - 7) * 4));
    size_t again;
    CHECK(cudaGetTextureAlignmentOffset(&again, line));
    REQUIRE(again == offset && offset % 4 == 0);
    fetchLine<<<12, 256>>>(out.p, int(offset / 4), n - 7);
    auto got = fetched(out.p, n - 7);
    for (int i = 0; i < n - 7; i++) REQUIRE(got[i] == in[i + 7]);
    CHECK(cudaUnbindTexture(line));
    puts("linear memory: right");
}

static void rows() {
    const int w = 61, h = 13;
    std::vector<uchar4> in(w * h);
    Random random = {22};
    for (auto &v : in) {
        unsigned r = random.next();
        v = make_uchar4(r, r >> 8, r >> 16, r >> 24);
    }
    uchar4 *p;
    size_t pitch, offset = 99;
    CHECK(cudaMallocPitch(&p, &pitch, w * sizeof(uchar4), h));
    CHECK(cudaMemcpy2D(p, pitch, in.data(), w * sizeof(uchar4), w * sizeof(uchar4), h,
                       cudaMemcpyHostToDevice));
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    CHECK(cudaBindTexture2D(&offset, image, p, format, w, h, pitch));
    REQUIRE(offset == 0);
    Memory<float4> out(w * h);
    readImage<<<dim3(2, h), 32>>>(out.p, w, h);
    auto got = fetched(out.p, w * h);
    for (int i = 0; i < w * h; i++)
        REQUIRE(fabs(got[i].x - in[i].x / 255.0) < 1e-6 &&
                fabs(got[i].y - in[i].y / 255.0) < 1e-6 &&
                fabs(got[i].z - in[i].z / 255.0) < 1e-6 && fabs(got[i].w - in[i].w / 255.0) < 1e-6);
    CHECK(cudaUnbindTexture(image));
    CHECK(cudaFree(p));
    puts("rows of memory: right");
}

static cudaArray_t arrayOf(const std::vector<float> &in, int w, int h, unsigned flags = 0) {
    cudaArray_t a;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&a, &format, w, h, flags));
    CHECK(cudaMemcpy2DToArray(a, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    return a;
}

// filters changes the reference's own fields, which count when it is bound.
static void filters() {
    const int n = 8, threads = 64;
    const float first = -1.27f, step = 0.0625f;
    std::vector<float> row(n);
    for (int i = 0; i < n; i++) row[i] = float((i * 5) % n);
    cudaArray_t a = arrayOf(row, n, 1);
    Memory<float> out(threads);
    smooth.normalized = 1;
    smooth.filterMode = cudaFilterModeLinear;
    const cudaTextureAddressMode modes[] = {cudaAddressModeWrap, cudaAddressModeClamp,
                                            cudaAddressModeMirror, cudaAddressModeBorder};
    for (auto mode : modes) {
        smooth.addressMode[0] = mode;
        CHECK(cudaBindTextureToArray(smooth, a));
        readSmooth<<<1, threads>>>(out.p, first, step, 0.5f);
        auto got = fetched(out.p, threads);
        auto texel = [&](int i) -> double {
            switch (mode) {
            case cudaAddressModeWrap: return row[((i % n) + n) % n];
            case cudaAddressModeMirror:
                i = ((i % (2 * n)) + 2 * n) % (2 * n);
                return row[i < n ? i : 2 * n - 1 - i];
            case cudaAddressModeBorder: return i < 0 || i >= n ? 0 : row[i];
            default: return row[i < 0 ? 0 : i >= n ? n - 1 : i];
            }
        };
        for (int i = 0; i < threads; i++) {
            double x = (first + i * step) * double(n) - 0.5, left = texel(int(floor(x))),
                   right = texel(int(floor(x)) + 1);
            double want = left + (x - floor(x)) * (right - left);
            REQUIRE(fabs(got[i] - want) <=
                    fabs(right - left) / 256 + 1e-3); // weights have 8 bits of fraction
        }
    }
    smooth.normalized = 0;
    smooth.filterMode = cudaFilterModePoint;
    smooth.addressMode[0] = cudaAddressModeClamp;
    CHECK(cudaBindTextureToArray(smooth, a));
    readSmooth<<<1, threads>>>(out.p, -3.5f, 1, 0.5f);
    auto got = fetched(out.p, threads);
    for (int i = 0; i < threads; i++)
        REQUIRE(got[i] == row[i < 4 ? 0 : i >= 4 + n ? n - 1 : i - 4]);
    CHECK(cudaUnbindTexture(smooth));
    CHECK(cudaFreeArray(a));
    puts("filter and address modes: right");
}

// order binds another array before each of many launches, which nobody waits for.
static void order() {
    const int rounds = 100, n = 32;
    cudaArray_t a[3];
    for (int k = 0; k < 3; k++) {
        std::vector<float> in(n);
        for (int i = 0; i < n; i++) in[i] = float(100 * k + i);
        a[k] = arrayOf(in, n, 1);
    }
    Memory<float> out(rounds * n);
    for (int r = 0; r < rounds; r++) {
        CHECK(cudaBindTextureToArray(smooth, a[r % 3]));
        readSmooth<<<1, n>>>(out.p + r * n, 0.5f, 1, 0.5f);
    }
    CHECK(cudaUnbindTexture(smooth));
    auto got = fetched(out.p, rounds * n);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < n; i++) REQUIRE(got[r * n + i] == float(100 * (r % 3) + i));
    for (auto each : a) CHECK(cudaFreeArray(each));
    puts("launches keep what was bound: right");
}

template <typename T>
static cudaArray_t boxOf(const std::vector<T> &in, int w, int h, int d, unsigned flags) {
    cudaArray_t a;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    cudaExtent extent = make_cudaExtent(w, h, d);
    CHECK(cudaMalloc3DArray(&a, &format, extent, flags));
    cudaMemcpy3DParms c = {};
    c.srcPtr = make_cudaPitchedPtr((void *)in.data(), w * sizeof(T), w, h);
    c.dstArray = a;
    c.extent = extent;
    c.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&c));
    return a;
}

static void boxes() {
    const int w = 24, h = 10, d = 5;
    std::vector<int> in(w * h * d);
    std::vector<float> floats(w * h * d);
    Random random = {23};
    for (auto &v : in) v = int(random.next());
    for (auto &v : floats) v = float(random.below(1000));
    Memory<int> out(w * h * d);
    cudaArray_t a = boxOf(in, w, h, d, 0), b = boxOf(floats, w, h, d, cudaArrayLayered);
    CHECK(cudaBindTextureToArray(volume, a));
    readVolume<<<dim3(h, d), w>>>(out.p, w, h);
    REQUIRE(fetched(out.p, w * h * d) == in);
    CHECK(cudaBindTextureToArray(layers, b));
    Memory<float> out2(w * h * d);
    readLayers<<<dim3(h, d), w>>>(out2.p, w, h);
    REQUIRE(fetched(out2.p, w * h * d) == floats);
    CHECK(cudaUnbindTexture(volume));
    CHECK(cudaUnbindTexture(layers));
    CHECK(cudaFreeArray(a));
    CHECK(cudaFreeArray(b));
    puts("volume and layers: right");
}

static void mipmaps() {
    const int w = 16;
    cudaMipmappedArray_t m;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocMipmappedArray(&m, &format, make_cudaExtent(w, w, 0), 3));
    for (int k = 0; k < 3; k++) {
        int n = w >> k;
        std::vector<float> in(n * n, float(10 * (k + 1)));
        cudaArray_t level;
        CHECK(cudaGetMipmappedArrayLevel(&level, m, k));
        CHECK(cudaMemcpy2DToArray(level, 0, 0, in.data(), n * 4, n * 4, n, cudaMemcpyHostToDevice));
    }
    levels.normalized = 1;
    levels.filterMode = cudaFilterModePoint;
    levels.mipmapFilterMode = cudaFilterModeLinear;
    levels.maxMipmapLevelClamp = 2;
    CHECK(cudaBindTextureToMipmappedArray(levels, m, format));
    Memory<float> out(32);
    const float at[] = {0, 0.5f, 1, 1.25f, 2, 5}, want[] = {10, 15, 20, 22.5f, 30, 30};
    for (int i = 0; i < 6; i++) {
        readLevel<<<1, 32>>>(out.p, at[i]);
        for (float v : fetched(out.p, 32)) REQUIRE(fabs(v - want[i]) <= 10.0 / 256);
    }
    CHECK(cudaUnbindTexture(levels));
    CHECK(cudaFreeMipmappedArray(m));
    puts("levels: right");
}

static void gathers() {
    const int w = 20;
    std::vector<float> in(w * 2);
    for (int i = 0; i < w * 2; i++) in[i] = float(i);
    cudaArray_t a = arrayOf(in, w, 2, cudaArrayTextureGather);
    CHECK(cudaBindTextureToArray(quads, a));
    Memory<float4> out(w);
    readQuads<<<1, 32>>>(out.p, w);
    auto got = fetched(out.p, w - 1);
    for (int x = 0; x + 1 < w; x++)
        REQUIRE(got[x].x == in[w + x] && got[x].y == in[w + x + 1] && got[x].z == in[x + 1] &&
                got[x].w == in[x]);
    CHECK(cudaUnbindTexture(quads));
    CHECK(cudaFreeArray(a));
    puts("gather: right");
}

static void surfaces() {
    const int w = 40, h = 6;
    std::vector<int> in(w * h), got(w * h);
    for (int i = 0; i < w * h; i++) in[i] = i * i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    cudaArray_t a[2];
    for (auto &each : a) {
        CHECK(cudaMallocArray(&each, &format, w, h, cudaArraySurfaceLoadStore));
        CHECK(cudaMemcpy2DToArray(each, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    }
    for (int r = 0; r < 10; r++) {
        CHECK(cudaBindSurfaceToArray(board, a[r % 2]));
        bump<<<h, 64>>>(w, r % 2 ? 1000 : 1);
    }
    for (int k = 0; k < 2; k++) {
        CHECK(
            cudaMemcpy2DFromArray(got.data(), w * 4, a[k], 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
        for (int i = 0; i < w * h; i++) REQUIRE(got[i] == in[i] + 5 * (k ? 1000 : 1));
        CHECK(cudaFreeArray(a[k]));
    }
    puts("surface: right");
}

int main() {
    linear();
    rows();
    filters();
    order();
    boxes();
    mipmaps();
    gathers();
    surfaces();
    puts("done");
    return 0;
}
