// SPDX-License-Identifier: Apache-2.0
// Pointers to functions in device memory, stored once and used round after round: as many as the
// argument says, 0 for no end. They are of functions of the program and of a module that was loaded
// when others were there, which are gone. Each round loads one more, and unloads it.
#include "driver.h"

typedef uint32_t (*Function)(uint32_t);

static __device__ __noinline__ uint32_t twice(uint32_t n) { return 2 * n + (n >> 30); }
static __device__ __noinline__ uint32_t square(uint32_t n) { return n * n; }
static __device__ __noinline__ uint32_t steps(uint32_t n) {
    return n < 2 ? n : 1 + steps(n & 1 ? n - 1 : n / 2);
}

static __global__ void store(Function *to) {
    to[0] = twice;
    to[1] = square;
    to[2] = steps;
}

static __global__ void call(Function *from, uint32_t n, uint32_t *out) { *out = from[n % 3](n); }

static const char text[] = R"(
.version 7.0
.target sm_75
.address_size 64
.func (.param .b32 out) thrice(.param .b32 in)
{
    .reg .b32 %v;
    ld.param.b32 %v, [in];
    mul.lo.u32 %v, %v, 3;
    st.param.b32 [out], %v;
    ret;
}
.visible .entry put(.param .u64 to)
{
    .reg .b64 %a<3>;
    ld.param.u64 %a1, [to];
    mov.u64 %a2, thrice;
    st.global.u64 [%a1], %a2;
    ret;
}
.visible .entry use(.param .u64 from, .param .u32 n, .param .u64 out)
{
    .reg .b32 %v;
    .reg .b64 %a<3>;
    ld.param.u64 %a1, [from];
    ld.global.u64 %a1, [%a1];
    ld.param.u64 %a2, [out];
    ld.param.u32 %v, [n];
    {
        .param .b32 in;
        .param .b32 result;
        st.param.b32 [in], %v;
        one: .callprototype (.param .b32 _) _ (.param .b32 _);
        call (result), %a1, (in), one;
        ld.param.b32 %v, [result];
    }
    st.global.u32 [%a2], %v;
    ret;
}
)";

// passing loads a module that is like no other, and unloads it.
static void passing(unsigned number) {
    char other[sizeof text + 32];
    snprintf(other, sizeof other, "%s.shared .u32 number%u;\n", text, number);
    CUmodule module;
    CHECKCU(cuModuleLoadData(&module, other));
    CHECKCU(cuModuleUnload(module));
}

static uint32_t want(uint32_t n) {
    uint32_t count = 0;
    switch (n % 3) {
    case 0: return 2 * n + (n >> 30);
    case 1: return n * n;
    }
    for (; n >= 2; count++) n = n & 1 ? n - 1 : n / 2;
    return count + n;
}

int main(int, char **argv) {
    const int rounds = atoi(argv[1]);
    openDevice();
    CUmodule module;
    CUfunction put, use;
    Function *table;
    CUdeviceptr place, out;
    uint32_t has, n, *result;
    passing(1000000001);
    CHECK(cudaMalloc(&table, 3 * sizeof *table));
    CHECK(cudaMalloc(&result, sizeof *result));
    store<<<1, 1>>>(table);
    CHECK(cudaDeviceSynchronize());
    passing(1000000002);
    CHECKCU(cuModuleLoadData(&module, text));
    CHECKCU(cuModuleGetFunction(&put, module, "put"));
    CHECKCU(cuModuleGetFunction(&use, module, "use"));
    CHECKCU(cuMemAlloc(&place, sizeof(uint64_t)));
    CHECKCU(cuMemAlloc(&out, sizeof has));
    void *where[] = {&place}, *with[] = {&place, &n, &out};
    CHECKCU(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, nullptr, where, nullptr));
    int i;
    for (i = 0; i < rounds || !rounds; i++) {
        n = i * 1664525u + i % 5;
        call<<<1, 1>>>(table, n, result);
        CHECK(cudaMemcpy(&has, result, sizeof has, cudaMemcpyDeviceToHost));
        REQUIRE(has == want(n));
        CHECKCU(cuLaunchKernel(use, 1, 1, 1, 1, 1, 1, 0, nullptr, with, nullptr));
        CHECKCU(cuMemcpyDtoH(&has, out, sizeof has));
        REQUIRE(has == 3 * n);
        passing(i);
    }
    printf("%d rounds of pointers to functions\n", i);
}
