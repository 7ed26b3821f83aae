// SPDX-License-Identifier: Apache-2.0
// What the software GPU hasn't got, as far as other programs don't call it: arrays, textures,
// surfaces, tensor maps, clusters.
#include "versions.h"
#include <vector>

static CUstream stream;

static const unsigned length = 512;

static __global__ void sample(unsigned *out, cudaTextureObject_t texture) {
    out[threadIdx.x] = tex1D<unsigned>(texture, threadIdx.x + 0.5f);
}

static __global__ void store(cudaSurfaceObject_t surface) {
    surf1Dwrite(threadIdx.x * 3, surface, threadIdx.x * 4);
}

static CUarray array() {
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUarray a;
    memset(&d, 0, sizeof d);
    d.Width = length, d.Format = CU_AD_FORMAT_UNSIGNED_INT32, d.NumChannels = 1,
    d.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    CHECKCU(cuArray3DCreate(&a, &d));
    return a;
}

static void arrays(CUdevice device) {
    CUarray a = array(), b = array(), plane;
    CUDA_ARRAY_DESCRIPTOR d;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUdeviceptr p;
    size_t width = 0;
    std::vector<unsigned> v(length), got(length);
    Random random{3};
    for (unsigned &x : v) x = random.next();
    CHECKCU(cuArrayGetDescriptor(&d, a));
    REQUIRE(d.Width == length && d.Height == 0 && d.NumChannels == 1);
    REQUIRE(cuArrayGetPlane(&plane, a, 0) != CUDA_SUCCESS);
    REQUIRE(cuArrayGetMemoryRequirements(&needs, a, device) != CUDA_SUCCESS);
    REQUIRE(cuArrayGetSparseProperties(&sparse, a) != CUDA_SUCCESS);
    CHECKCU(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, device));
    REQUIRE(width > 0);
    CHECKCU(cuMemAlloc(&p, length * 4));
    CHECKCU(cuMemcpyHtoAAsync(a, 0, v.data(), length * 4, stream));
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyAtoA(b, 0, a, 0, length * 4));
    CHECKCU(cuMemcpyAtoD(p, b, 0, length * 4));
    CHECKCU(cuMemcpyDtoH(got.data(), p, length * 4));
    REQUIRE(got == v);
    CHECKCU(cuMemsetD32(p, 77, length));
    CHECKCU(cuMemcpyDtoA(b, 0, p, length * 4));
    CHECKCU(cuMemcpyAtoHAsync(got.data(), b, 0, length * 4, stream));
    CHECKCU(cuStreamSynchronize(stream));
    REQUIRE(got == std::vector<unsigned>(length, 77));

    CUDA_RESOURCE_DESC resource, toldResource;
    CUDA_TEXTURE_DESC texture, toldTexture;
    CUDA_RESOURCE_VIEW_DESC view;
    CUtexObject t;
    CUsurfObject s;
    memset(&resource, 0, sizeof resource);
    memset(&texture, 0, sizeof texture);
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = a;
    texture.addressMode[0] = CU_TR_ADDRESS_MODE_CLAMP;
    texture.filterMode = CU_TR_FILTER_MODE_POINT;
    texture.flags = CU_TRSF_READ_AS_INTEGER;
    CHECKCU(cuTexObjectCreate(&t, &resource, &texture, nullptr));
    CHECKCU(cuTexObjectGetResourceDesc(&toldResource, t));
    REQUIRE(toldResource.resType == CU_RESOURCE_TYPE_ARRAY && toldResource.res.array.hArray == a);
    CHECKCU(cuTexObjectGetTextureDesc(&toldTexture, t));
    REQUIRE(toldTexture.addressMode[0] == CU_TR_ADDRESS_MODE_CLAMP &&
            toldTexture.flags == CU_TRSF_READ_AS_INTEGER);
    CHECKCU(cuTexObjectGetResourceViewDesc(&view, t));
    sample<<<1, length, 0, stream>>>((unsigned *)p, t);
    CHECK(cudaGetLastError());
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyDtoH(got.data(), p, length * 4));
    REQUIRE(got == v);
    CHECKCU(cuTexObjectDestroy(t));
    resource.res.array.hArray = b;
    CHECKCU(cuSurfObjectCreate(&s, &resource));
    CHECKCU(cuSurfObjectGetResourceDesc(&toldResource, s));
    REQUIRE(toldResource.res.array.hArray == b);
    store<<<1, length, 0, stream>>>(s);
    CHECK(cudaGetLastError());
    CHECKCU(cuStreamSynchronize(stream));
    CHECKCU(cuMemcpyAtoH(got.data(), b, 0, length * 4));
    for (unsigned i = 0; i < length; i++) REQUIRE(got[i] == i * 3);
    CHECKCU(cuSurfObjectDestroy(s));
    CHECKCU(cuMemFree(p));
    CHECKCU(cuArrayDestroy(a));
    CHECKCU(cuArrayDestroy(b));

    CUDA_ARRAY3D_DESCRIPTOR levels;
    CUmipmappedArray mipmap;
    memset(&levels, 0, sizeof levels);
    levels.Width = levels.Height = 64, levels.Format = CU_AD_FORMAT_FLOAT, levels.NumChannels = 1;
    CHECKCU(cuMipmappedArrayCreate(&mipmap, &levels, 3));
    REQUIRE(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, device) != CUDA_SUCCESS);
    REQUIRE(cuMipmappedArrayGetSparseProperties(&sparse, mipmap) != CUDA_SUCCESS);
    CHECKCU(cuMipmappedArrayDestroy(mipmap));
    puts("arrays, textures, surfaces");
}

static void tensorMaps() {
    alignas(64) CUtensorMap map, moved;
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, 1 << 20));
    cuuint64_t dim[] = {64, 64}, stride[] = {256};
    cuuint32_t box[] = {32, 32}, step[] = {1, 1, 1, 1};
    CHECKCU(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)p, dim, stride,
                                   box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    moved = map;
    CHECKCU(cuTensorMapReplaceAddress(&moved, (void *)(p + 4096)));
    REQUIRE(memcmp(&moved, &map, sizeof map) != 0);
    CHECKCU(cuTensorMapReplaceAddress(&moved, (void *)p));
    REQUIRE(memcmp(&moved, &map, sizeof map) == 0);
    cuuint64_t image[] = {64, 16, 16, 1}, strides[] = {128, 2048, 32768};
    int lower[] = {-1, -1}, upper[] = {-1, -1};
    CHECKCU(cuTensorMapEncodeIm2col(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)p, image, strides, lower, upper, 64, 64,
        step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    // Not of every GPU: that it answers is all that is asked.
    auto wide =
        get<CUresult(CUtensorMap *, int, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                     int, int, cuuint32_t, cuuint32_t, const cuuint32_t *, int, int, int, int,
                     int)>("cuTensorMapEncodeIm2colWide", 12080);
    (void)wide(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, (void *)p, image, strides, -1, -1, 64, 64,
               step, 0, 0, 0, 0, 0);
    CHECKCU(cuMemFree(p));
    puts("tensor maps");
}

static void clusters() {
    CUfunction f;
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    int size = 0, active = 0;
    CHECK(cudaGetFuncBySymbol(&f, (const void *)store));
    memset(&config, 0, sizeof config);
    memset(&attribute, 0, sizeof attribute);
    config.gridDimX = 16, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 128, config.blockDimY = config.blockDimZ = 1;
    CHECKCU(cuOccupancyMaxPotentialClusterSize(&size, f, &config));
    REQUIRE(size >= 8);
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = 2,
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    CHECKCU(cuOccupancyMaxActiveClusters(&active, f, &config));
    REQUIRE(active > 0);
    puts("clusters");
}

int main() {
    CUdevice device = openDevice();
    CHECKCU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    arrays(device);
    tensorMaps();
    clusters();
    return 0;
}
