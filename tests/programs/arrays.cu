// SPDX-License-Identifier: Apache-2.0
// Arrays, textures and surfaces: copies to and from them, and kernels that read and write through
// them.
#include "driver.h"
#include <vector>

static __global__ void fetch(cudaTextureObject_t t, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x + 0.5f, y + 0.5f);
}

static __global__ void between(cudaTextureObject_t t, float *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = tex2D<float>(t, i + 1.0f, 0.5f);
}

static __global__ void linear(cudaTextureObject_t t, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<int>(t, n - 1 - i);
}

static __global__ void store(cudaSurfaceObject_t s, int w, int h) {
    int x = threadIdx.x, y = blockIdx.x;
    if (x < w && y < h) surf2Dwrite(x * 100 + y, s, x * int(sizeof(int)), y);
}

static void textures() {
    const int w = 70, h = 33;
    std::vector<float> in(w * h), back(w * h);
    for (int i = 0; i < w * h; i++) in[i] = i * 0.5f;
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, w, h));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(back.data(), w * 4, array, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    REQUIRE(in == back);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc desc = {};
    desc.addressMode[0] = desc.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t t;
    float *out;
    CHECK(cudaMalloc(&out, w * h * 4));
    CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
    fetch<<<dim3(5, 3), dim3(16, 16)>>>(t, out, w, h);
    CHECK(cudaMemcpy(back.data(), out, w * h * 4, cudaMemcpyDeviceToHost));
    REQUIRE(in == back);
    cudaResourceDesc told = {};
    CHECK(cudaGetTextureObjectResourceDesc(&told, t));
    REQUIRE(told.res.array.array == array);
    CHECK(cudaDestroyTextureObject(t));
    desc.filterMode = cudaFilterModeLinear;
    CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
    between<<<1, 32>>>(t, out, 32);
    CHECK(cudaMemcpy(back.data(), out, 32 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) REQUIRE(back[i] == (in[i] + in[i + 1]) / 2);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(out));
    CHECK(cudaFreeArray(array));
    puts("textures of an array: right");
}

static void buffers() {
    const int n = 1000;
    std::vector<int> in(n), got(n);
    for (int i = 0; i < n; i++) in[i] = i * i;
    int *p, *out;
    CHECK(cudaMalloc(&p, n * 4));
    CHECK(cudaMalloc(&out, n * 4));
    CHECK(cudaMemcpy(p, in.data(), n * 4, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = p;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = n * 4;
    cudaTextureDesc desc = {};
    cudaTextureObject_t t;
    CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
    linear<<<(n + 255) / 256, 256>>>(t, out, n);
    CHECK(cudaMemcpy(got.data(), out, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) REQUIRE(got[i] == in[n - 1 - i]);
    CHECK(cudaDestroyTextureObject(t));
    CHECK(cudaFree(p));
    CHECK(cudaFree(out));
    puts("texture of linear memory: right");
}

static void surfaces() {
    const int w = 48, h = 20;
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
    CHECK(cudaMallocArray(&array, &format, w, h, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t s;
    CHECK(cudaCreateSurfaceObject(&s, &resource));
    store<<<h, 64>>>(s, w, h);
    std::vector<int> got(w * h);
    CHECK(cudaMemcpy2DFromArray(got.data(), w * 4, array, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) REQUIRE(got[y * w + x] == x * 100 + y);
    CHECK(cudaDestroySurfaceObject(s));
    CHECK(cudaFreeArray(array));
    puts("surface: right");
}

static void volumes() {
    const size_t w = 20, h = 11, d = 7;
    CUDA_ARRAY3D_DESCRIPTOR desc = {}, told = {};
    desc.Width = w, desc.Height = h, desc.Depth = d;
    desc.Format = CU_AD_FORMAT_UNSIGNED_INT16;
    desc.NumChannels = 2;
    CUarray a, b;
    CHECKCU(cuArray3DCreate(&a, &desc));
    CHECKCU(cuArray3DCreate(&b, &desc));
    CHECKCU(cuArray3DGetDescriptor(&told, a));
    printf("volume: %zu x %zu x %zu, format %d, %u channels\n", told.Width, told.Height, told.Depth,
           int(told.Format), told.NumChannels);
    std::vector<unsigned> in(w * h * d), back(w * h * d);
    Random random = {5};
    for (auto &v : in) v = random.next();
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, w * h * d * 4));
    CUDA_MEMCPY3D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = in.data(), c.srcPitch = w * 4,
    c.srcHeight = h;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY, c.dstArray = a;
    c.WidthInBytes = w * 4, c.Height = h, c.Depth = d;
    CHECKCU(cuMemcpy3D(&c));
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY, c.srcArray = a, c.dstArray = b;
    CHECKCU(cuMemcpy3D(&c));
    c.srcArray = b, c.dstMemoryType = CU_MEMORYTYPE_DEVICE, c.dstDevice = p, c.dstPitch = w * 4,
    c.dstHeight = h;
    CHECKCU(cuMemcpy3DAsync(&c, nullptr));
    CHECKCU(cuMemcpyDtoH(back.data(), p, back.size() * 4));
    REQUIRE(in == back);
    CHECKCU(cuMemFree(p));
    CHECKCU(cuArrayDestroy(a));
    CHECKCU(cuArrayDestroy(b));

    CUDA_ARRAY_DESCRIPTOR flat = {};
    flat.Width = 300, flat.Format = CU_AD_FORMAT_UNSIGNED_INT8, flat.NumChannels = 1;
    std::vector<unsigned char> bytes(300), got(300);
    for (auto &v : bytes) v = random.next();
    CHECKCU(cuArrayCreate(&a, &flat));
    CHECKCU(cuMemcpyHtoA(a, 0, bytes.data(), 300));
    CHECKCU(cuMemcpyAtoH(got.data(), a, 100, 200));
    for (int i = 0; i < 200; i++) REQUIRE(got[i] == bytes[100 + i]);
    CHECKCU(cuArrayDestroy(a));
    puts("copies: right");
}

static void levels() {
    CUDA_ARRAY3D_DESCRIPTOR desc = {}, told = {};
    desc.Width = desc.Height = 64;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    CUmipmappedArray m;
    CUarray level;
    CHECKCU(cuMipmappedArrayCreate(&m, &desc, 4));
    for (unsigned i = 0; i < 4; i++) {
        CHECKCU(cuMipmappedArrayGetLevel(&level, m, i));
        CHECKCU(cuArray3DGetDescriptor(&told, level));
        printf("level %u: %zu x %zu\n", i, told.Width, told.Height);
    }
    CHECKCU(cuMipmappedArrayDestroy(m));
}

int main() {
    openDevice();
    textures();
    buffers();
    surfaces();
    volumes();
    levels();
    return 0;
}
