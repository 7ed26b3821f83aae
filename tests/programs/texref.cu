// SPDX-License-Identifier: Apache-2.0
// Texture and surface references by the driver API, of PTX text.
#include "driver.h"
#include <cmath>
#include <vector>

#pragma nv_diag_suppress 1444
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Each kernel writes what thread i reads to out[4 * i].
static const char ptx[] = R"(
.version 7.0
.target sm_75
.address_size 64

.global .texref line;
.global .texref image;
.global .texref second;
.global .surfref board;

.visible .entry fetch(.param .u64 out, .param .s32 first)
{
    .reg .b32 %i, %x;
    .reg .b32 %v<4>;
    .reg .b64 %p, %o;
    mov.u32 %i, %tid.x;
    ld.param.s32 %x, [first];
    add.s32 %x, %x, %i;
    tex.1d.v4.s32.s32 {%v0, %v1, %v2, %v3}, [line, {%x}];
    ld.param.u64 %p, [out];
    mul.wide.u32 %o, %i, 16;
    add.u64 %p, %p, %o;
    st.global.v4.b32 [%p], {%v0, %v1, %v2, %v3};
    ret;
}

.visible .entry sample(.param .u64 out, .param .f32 x, .param .f32 step, .param .f32 y)
{
    .reg .b32 %i;
    .reg .f32 %x, %y, %d, %f;
    .reg .b32 %v<4>;
    .reg .b64 %p, %o;
    mov.u32 %i, %tid.x;
    cvt.rn.f32.u32 %f, %i;
    ld.param.f32 %x, [x];
    ld.param.f32 %d, [step];
    ld.param.f32 %y, [y];
    fma.rn.f32 %x, %f, %d, %x;
    tex.2d.v4.u32.f32 {%v0, %v1, %v2, %v3}, [image, {%x, %y}];
    ld.param.u64 %p, [out];
    mul.wide.u32 %o, %i, 16;
    add.u64 %p, %p, %o;
    st.global.v4.b32 [%p], {%v0, %v1, %v2, %v3};
    ret;
}

.visible .entry both(.param .u64 out)
{
    .reg .b32 %i;
    .reg .f32 %x;
    .reg .f32 %v<4>;
    .reg .f32 %w<4>;
    .reg .b64 %p, %o;
    mov.u32 %i, %tid.x;
    cvt.rn.f32.u32 %x, %i;
    add.f32 %x, %x, 0f3F000000;
    tex.2d.v4.f32.f32 {%v0, %v1, %v2, %v3}, [image, {%x, %x}];
    tex.2d.v4.f32.f32 {%w0, %w1, %w2, %w3}, [second, {%x, %x}];
    ld.param.u64 %p, [out];
    mul.wide.u32 %o, %i, 16;
    add.u64 %p, %p, %o;
    st.global.f32 [%p], %v0;
    st.global.f32 [%p+4], %w0;
    ret;
}

.visible .entry add(.param .s32 y, .param .s32 more)
{
    .reg .b32 %x, %y, %v, %d;
    mov.u32 %x, %tid.x;
    shl.b32 %x, %x, 2;
    ld.param.s32 %y, [y];
    ld.param.s32 %d, [more];
    suld.b.2d.b32.trap {%v}, [board, {%x, %y}];
    add.s32 %v, %v, %d;
    sust.b.2d.b32.trap [board, {%x, %y}], {%v};
    ret;
}
)";

static CUmodule module;
static CUdeviceptr out;
static const int threads = 64;

static CUfunction function(const char *name) {
    CUfunction f;
    CHECKCU(cuModuleGetFunction(&f, module, name));
    return f;
}

static CUtexref textureOf(const char *name) {
    CUtexref t;
    CHECKCU(cuModuleGetTexRef(&t, module, name));
    return t;
}

static void launch(CUfunction f, void **args) {
    CHECKCU(cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, nullptr, args, nullptr));
}

template <typename T> static std::vector<T> results() {
    std::vector<T> all(threads * 4), first(threads);
    CHECKCU(cuMemcpyDtoH(all.data(), out, all.size() * 4));
    for (int i = 0; i < threads; i++) first[i] = all[4 * i];
    return first;
}

// array makes an array of w x h texels and fills it.
template <typename T>
static CUarray array(CUarray_format format, int w, int h, const std::vector<T> &content,
                     unsigned flags = 0) {
    CUarray a;
    CUDA_ARRAY3D_DESCRIPTOR d = {};
    d.Width = w, d.Height = h, d.Format = format, d.NumChannels = 1, d.Flags = flags;
    CHECKCU(cuArray3DCreate(&a, &d));
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = content.data(), c.srcPitch = w * sizeof(T);
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY, c.dstArray = a;
    c.WidthInBytes = w * sizeof(T), c.Height = h;
    CHECKCU(cuMemcpy2D(&c));
    return a;
}

static void linear() {
    const int n = 1000;
    Random random = {11};
    std::vector<int> in(n);
    for (auto &v : in) v = int(random.next());
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, n * 4));
    CHECKCU(cuMemcpyHtoD(p, in.data(), n * 4));
    CUtexref t = textureOf("line");
    CUfunction fetch = function("fetch");
    CHECKCU(cuTexRefSetFormat(t, CU_AD_FORMAT_SIGNED_INT32, 1));
    CHECKCU(cuTexRefSetFlags(t, CU_TRSF_READ_AS_INTEGER));
    size_t offset = 1;
    CHECKCU(cuTexRefSetAddress(&offset, t, p, n * 4));
    REQUIRE(offset == 0);
    CHECKCU(cuTexRefSetAddress(nullptr, t, p, n * 4));
    CUdeviceptr bound;
    CHECKCU(cuTexRefGetAddress(&bound, t));
    REQUIRE(bound == p);
    int first = 100;
    void *args[] = {&out, &first};
    CHECKCU(cuParamSetTexRef(fetch, CU_PARAM_TR_DEFAULT, t));
    launch(fetch, args);
    auto got = results<int>();
    for (int i = 0; i < threads; i++) REQUIRE(got[i] == in[first + i]);
    // Beyond the end there is 0.
    first = n - 10;
    launch(fetch, args);
    got = results<int>();
    for (int i = 0; i < threads; i++) REQUIRE(got[i] == (i < 10 ? in[first + i] : 0));
    // From within: the offset is what is to be added.
    CHECKCU(cuTexRefSetAddress(&offset, t, p + 25 * 4, 500 * 4));
    REQUIRE(offset % 4 == 0 && offset <= 25 * 4);
    first = int(offset / 4);
    launch(fetch, args);
    got = results<int>();
    for (int i = 0; i < threads; i++) REQUIRE(got[i] == in[25 + i]);
    CUarray none;
    REPORTCU(cuTexRefGetArray(&none, t));
    CHECKCU(cuMemFree(p));
    puts("linear memory: right");
}

// order binds another array between launches that nobody waits for.
static void order() {
    const int w = threads, rounds = 20;
    CUtexref image = textureOf("image"), second = textureOf("second");
    CUfunction both = function("both");
    std::vector<CUarray> arrays;
    for (int r = 0; r < rounds; r++) {
        std::vector<float> content(w * w);
        for (int i = 0; i < w; i++) content[i * w + i] = float(1000 * r + i);
        arrays.push_back(array(CU_AD_FORMAT_FLOAT, w, w, content));
    }
    CUdeviceptr all;
    CHECKCU(cuMemAlloc(&all, rounds * threads * 16));
    CHECKCU(cuTexRefSetFlags(image, 0));
    for (int r = 0; r < rounds; r++) {
        CUdeviceptr to = all + r * threads * 16;
        void *args[] = {&to};
        CHECKCU(cuTexRefSetArray(image, arrays[r], CU_TRSA_OVERRIDE_FORMAT));
        CHECKCU(cuTexRefSetArray(second, arrays[rounds - 1 - r], CU_TRSA_OVERRIDE_FORMAT));
        launch(both, args);
    }
    CUarray bound;
    CHECKCU(cuTexRefGetArray(&bound, image));
    REQUIRE(bound == arrays[rounds - 1]);
    std::vector<float> got(rounds * threads * 4);
    CHECKCU(cuMemcpyDtoH(got.data(), all, got.size() * 4));
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < threads; i++) {
            REQUIRE(got[(r * threads + i) * 4] == float(1000 * r + i));
            REQUIRE(got[(r * threads + i) * 4 + 1] == float(1000 * (rounds - 1 - r) + i));
        }
    CHECKCU(cuMemFree(all));
    for (auto a : arrays) CHECKCU(cuArrayDestroy(a));
    puts("launches keep what was bound: right");
}

static std::vector<float> sample(float x, float step, float y) {
    void *args[] = {&out, &x, &step, &y};
    launch(function("sample"), args);
    return results<float>();
}

// texel is what is in a row of n texels, i having been brought into it by an address mode.
static float texel(const std::vector<float> &row, int i, CUaddress_mode mode) {
    int n = int(row.size());
    switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP: return row[((i % n) + n) % n];
    case CU_TR_ADDRESS_MODE_MIRROR:
        i = ((i % (2 * n)) + 2 * n) % (2 * n);
        return row[i < n ? i : 2 * n - 1 - i];
    case CU_TR_ADDRESS_MODE_BORDER: return i < 0 || i >= n ? 0 : row[i];
    default: return row[i < 0 ? 0 : i >= n ? n - 1 : i];
    }
}

// filters compares interpolation with computed values: the hardware's weights have 8 bits of
// fraction.
static void filters() {
    const int n = 16;
    std::vector<float> row(n);
    for (int i = 0; i < n; i++) row[i] = float((i * 7) % n);
    CUarray a = array(CU_AD_FORMAT_FLOAT, n, 1, row);
    CUtexref t = textureOf("image");
    CHECKCU(cuTexRefSetArray(t, a, CU_TRSA_OVERRIDE_FORMAT));
    CHECKCU(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    CHECKCU(cuTexRefSetFlags(t, CU_TRSF_NORMALIZED_COORDINATES));
    for (int m = CU_TR_ADDRESS_MODE_WRAP; m <= CU_TR_ADDRESS_MODE_BORDER; m++) {
        CUaddress_mode mode = CUaddress_mode(m), told;
        CHECKCU(cuTexRefSetAddressMode(t, 0, mode));
        CHECKCU(cuTexRefGetAddressMode(&told, t, 0));
        REQUIRE(told == mode);
        const float first = -1.03f, step = 0.051f;
        auto got = sample(first, step, 0.5f);
        for (int i = 0; i < threads; i++) {
            double x = double(fmaf(float(i), step, first)) * n - 0.5;
            int low = int(floor(x));
            double share = x - low, left = texel(row, low, mode), right = texel(row, low + 1, mode);
            double want = left + share * (right - left);
            REQUIRE(fabs(got[i] - want) <= fabs(right - left) / 256 + 1e-3);
        }
    }
    CUfilter_mode filter;
    unsigned flags;
    CHECKCU(cuTexRefGetFilterMode(&filter, t));
    CHECKCU(cuTexRefGetFlags(&flags, t));
    printf("filter mode %d, flags %u\n", int(filter), flags);
    // Not normalized, nearest: texels by their numbers, clamped.
    CHECKCU(cuTexRefSetFlags(t, 0));
    CHECKCU(cuTexRefSetFilterMode(t, CU_TR_FILTER_MODE_POINT));
    CHECKCU(cuTexRefSetAddressMode(t, 0, CU_TR_ADDRESS_MODE_CLAMP));
    auto got = sample(-7.5f, 1, 0);
    for (int i = 0; i < threads; i++)
        REQUIRE(got[i] == texel(row, i - 8, CU_TR_ADDRESS_MODE_CLAMP));
    CHECKCU(cuArrayDestroy(a));
    puts("filter and address modes: right");
}

static void formats() {
    std::vector<unsigned char> in(threads);
    for (int i = 0; i < threads; i++) in[i] = (unsigned char)(255 - 3 * i);
    CUarray a = array(CU_AD_FORMAT_UNSIGNED_INT8, threads, 1, in);
    CUtexref t = textureOf("image");
    CHECKCU(cuTexRefSetArray(t, a, CU_TRSA_OVERRIDE_FORMAT));
    CUarray_format format;
    int channels;
    CHECKCU(cuTexRefGetFormat(&format, &channels, t));
    printf("format %d, %d channels\n", int(format), channels);
    auto got = sample(0.5f, 1, 0.5f);
    for (int i = 0; i < threads; i++) REQUIRE(fabs(got[i] - in[i] / 255.0) < 1e-6);
    CHECKCU(cuTexRefSetFlags(t, CU_TRSF_READ_AS_INTEGER));
    sample(0.5f, 1, 0.5f);
    auto integers = results<int>();
    for (int i = 0; i < threads; i++) REQUIRE(integers[i] == in[i]);
    CHECKCU(cuTexRefSetFlags(t, 0));
    CHECKCU(cuArrayDestroy(a));
    puts("formats: right");
}

static void rows() {
    const int w = 50, h = 9;
    std::vector<float> in(w * h);
    Random random = {12};
    for (auto &v : in) v = float(random.below(1000));
    CUdeviceptr p;
    size_t pitch;
    CHECKCU(cuMemAllocPitch(&p, &pitch, w * 4, h, 4));
    CUDA_MEMCPY2D c = {};
    c.srcMemoryType = CU_MEMORYTYPE_HOST, c.srcHost = in.data(), c.srcPitch = w * 4;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE, c.dstDevice = p, c.dstPitch = pitch;
    c.WidthInBytes = w * 4, c.Height = h;
    CHECKCU(cuMemcpy2D(&c));
    CUDA_ARRAY_DESCRIPTOR d = {};
    d.Width = w, d.Height = h, d.Format = CU_AD_FORMAT_FLOAT, d.NumChannels = 1;
    CUtexref t = textureOf("image");
    CHECKCU(cuTexRefSetAddress2D(t, &d, p, pitch));
    for (int y = 0; y < h; y++) {
        auto got = sample(0.5f, 1, y + 0.5f);
        for (int x = 0; x < threads; x++) REQUIRE(got[x] == in[y * w + (x < w ? x : w - 1)]);
    }
    CHECKCU(cuMemFree(p));
    puts("rows of memory: right");
}

static void surfaces() {
    const int w = threads, h = 4;
    std::vector<int> in(w * h), got(w * h);
    for (int i = 0; i < w * h; i++) in[i] = i;
    CUarray a = array(CU_AD_FORMAT_SIGNED_INT32, w, h, in, CUDA_ARRAY3D_SURFACE_LDST);
    CUarray b = array(CU_AD_FORMAT_SIGNED_INT32, w, h, in, CUDA_ARRAY3D_SURFACE_LDST), bound;
    CUsurfref s;
    CHECKCU(cuModuleGetSurfRef(&s, module, "board"));
    CUfunction add = function("add");
    for (int i = 0; i < 8; i++) {
        int y = i / 2, more = 100 * (i + 1);
        void *args[] = {&y, &more};
        CHECKCU(cuSurfRefSetArray(s, i % 2 ? b : a, 0));
        launch(add, args);
    }
    CHECKCU(cuSurfRefGetArray(&bound, s));
    REQUIRE(bound == b);
    for (int k = 0; k < 2; k++) {
        CUDA_MEMCPY2D c = {};
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY, c.srcArray = k ? b : a;
        c.dstMemoryType = CU_MEMORYTYPE_HOST, c.dstHost = got.data(), c.dstPitch = w * 4;
        c.WidthInBytes = w * 4, c.Height = h;
        CHECKCU(cuMemcpy2D(&c));
        for (int i = 0; i < w * h; i++) REQUIRE(got[i] == in[i] + 100 * (2 * (i / w) + k + 1));
    }
    CHECKCU(cuArrayDestroy(a));
    CHECKCU(cuArrayDestroy(b));
    puts("surface: right");
}

static void made() {
    CUtexref t;
    CUarray_format format;
    int channels;
    float bias, low, high;
    CHECKCU(cuTexRefCreate(&t));
    CHECKCU(cuTexRefSetFormat(t, CU_AD_FORMAT_HALF, 4));
    CHECKCU(cuTexRefGetFormat(&format, &channels, t));
    CHECKCU(cuTexRefSetMipmapLevelBias(t, -1.5f));
    CHECKCU(cuTexRefGetMipmapLevelBias(&bias, t));
    CHECKCU(cuTexRefSetMipmapLevelClamp(t, 0.25f, 3));
    CHECKCU(cuTexRefGetMipmapLevelClamp(&low, &high, t));
    printf("format %d, %d channels, bias %g, levels %g to %g\n", int(format), channels, bias, low,
           high);
    float border[4] = {1, 2, 3, 4}, told[4];
    int most;
    CUfilter_mode between;
    CHECKCU(cuTexRefSetBorderColor(t, border));
    CHECKCU(cuTexRefGetBorderColor(told, t));
    REQUIRE(!memcmp(border, told, sizeof told));
    CHECKCU(cuTexRefSetMaxAnisotropy(t, 8));
    CHECKCU(cuTexRefGetMaxAnisotropy(&most, t));
    CHECKCU(cuTexRefSetMipmapFilterMode(t, CU_TR_FILTER_MODE_LINEAR));
    CHECKCU(cuTexRefGetMipmapFilterMode(&between, t));
    CUDA_ARRAY3D_DESCRIPTOR shape = {};
    shape.Width = shape.Height = 8, shape.Format = CU_AD_FORMAT_FLOAT, shape.NumChannels = 1;
    CUmipmappedArray levels, same;
    CHECKCU(cuMipmappedArrayCreate(&levels, &shape, 3));
    CHECKCU(cuTexRefSetMipmappedArray(t, levels, CU_TRSA_OVERRIDE_FORMAT));
    CHECKCU(cuTexRefGetMipmappedArray(&same, t));
    REQUIRE(same == levels);
    CHECKCU(cuTexRefGetFormat(&format, &channels, t));
    printf("anisotropy %d, between levels %d, then format %d, %d channels\n", most, int(between),
           int(format), channels);
    CHECKCU(cuTexRefDestroy(t));
    CHECKCU(cuMipmappedArrayDestroy(levels));
    CUsurfref s;
    REPORTCU(cuModuleGetTexRef(&t, module, "missing"));
    REPORTCU(cuModuleGetSurfRef(&s, module, "missing"));
}

int main() {
    openDevice();
    CHECKCU(cuModuleLoadData(&module, ptx));
    CHECKCU(cuMemAlloc(&out, threads * 16));
    linear();
    order();
    filters();
    formats();
    rows();
    surfaces();
    made();
    CHECKCU(cuModuleUnload(module));
    puts("done");
    return 0;
}
