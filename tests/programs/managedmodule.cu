// SPDX-License-Identifier: Apache-2.0
// Managed variables of PTX that the driver API loads, as modules and as a library: each module has
// its own, with the initial values, at addresses that host and device share.
#include "driver.h"
#include <cstring>

// The names begin alike; comments and strings have them too.
static const char ptx[] = R"(
.version 7.0
.target sm_75
.address_size 64
// .global .attribute(.managed) .u32 a;
.visible .global .align 4 .u32 plain = 3;
.visible .global .attribute(.managed) .align 4 .u32 a = 7;
.visible .global .attribute(.managed) .align 4 .u32 ab[3] = {10, 20, 30}; /* a, ab
and abc */ .visible .global .attribute(.managed) .align 8 .b8 abc[40960];
.visible .global .attribute(.managed) .align 8 .u64 toPlain = generic(plain);
.visible .global .attribute(.managed) .align 8 .f64 number = 0d3FF8000000000000;

.func bump(.param .b32 by)
{
    .reg .b32 %x, %by;
    ld.param.u32 %by, [by];
    ld.global.u32 %x, [ab + 4];
    add.u32 %x, %x, %by;
    st.global.u32 [ab+4], %x;
    ret;
}

.visible .entry step(.param .u64 out)
{
    .reg .pred %always;
    .reg .b32 %r<4>;
    .reg .b64 %p<6>;
    .reg .f64 %d;
    ld.param.u64 %p0, [out];
    cvta.to.global.u64 %p0, %p0;
    mov.u64 %p1, a;
    cvta.global.u64 %p1, %p1;
    st.global.u64 [%p0], %p1;
    mov.u64 %p2, ab+8;
    st.global.u64 [%p0+8], %p2;
    setp.ne.u64 %always, %p1, 0;
    @%always atom.global.add.u32 %r0, [a], 1;
    {
        .param .b32 param0;
        st.param.b32 [param0], 5;
        call.uni bump, (param0);
    }
    st.global.u8 [abc+40959], 90;
    ld.global.u64 %p3, [toPlain];
    ld.u32 %r1, [%p3];
    add.u32 %r1, %r1, 1;
    st.u32 [%p3], %r1;
    ld.global.f64 %d, [number];
    add.f64 %d, %d, %d;
    st.global.f64 [number], %d;
again:
    @!%always bra again;
    ret;
}
)";

struct Variables {
    unsigned *a, *ab;
    unsigned char *abc;
    unsigned **toPlain;
    double *number;
    CUdeviceptr plain;
};

static void *address(CUmodule m, const char *name, size_t want) {
    CUdeviceptr p;
    size_t bytes;
    unsigned managed;
    CHECKCU(cuModuleGetGlobal(&p, &bytes, m, name));
    CHECKCU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    REQUIRE(bytes == want && managed);
    return (void *)p;
}

// find looks the variables up and checks their initial values, but for toPlain.
static Variables find(CUmodule m) {
    Variables v;
    size_t bytes;
    v.a = (unsigned *)address(m, "a", 4);
    v.ab = (unsigned *)address(m, "ab", 12);
    v.abc = (unsigned char *)address(m, "abc", 40960);
    v.toPlain = (unsigned **)address(m, "toPlain", 8);
    v.number = (double *)address(m, "number", 8);
    CHECKCU(cuModuleGetGlobal(&v.plain, &bytes, m, "plain"));
    REQUIRE(*v.a == 7 && v.ab[0] == 10 && v.ab[1] == 20 && v.ab[2] == 30 && *v.number == 1.5);
    REQUIRE(bytes == 4);
    for (int i = 0; i < 40960; i++) REQUIRE(v.abc[i] == 0);
    return v;
}

// findInModule is find for a module of its own, where toPlain has an initial value: in a library
// plain has an address in each context, toPlain one for all of them.
static Variables findInModule(CUmodule m) {
    Variables v = find(m);
    REQUIRE((CUdeviceptr)*v.toPlain == v.plain);
    return v;
}

// run launches step and checks what it did: turn counts from 1.
static void run(CUfunction step, const Variables &v, unsigned turn) {
    CUdeviceptr out;
    uint64_t got[2];
    unsigned plain;
    CHECKCU(cuMemAlloc(&out, sizeof got));
    void *args[] = {&out};
    v.ab[0] = turn * 1000;
    unsigned before = *v.a = turn * 77;
    v.abc[40959] = 1;
    CHECKCU(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuMemcpyDtoH(got, out, sizeof got));
    CHECKCU(cuMemcpyDtoH(&plain, v.plain, sizeof plain));
    REQUIRE(got[0] == (uint64_t)v.a && got[1] == (uint64_t)&v.ab[2]);
    REQUIRE(*v.a == before + 1 && v.ab[0] == turn * 1000 && v.ab[1] == 20 + 5 * turn &&
            v.ab[2] == 30);
    REQUIRE(v.abc[40959] == 90 && v.abc[40958] == 0 && plain == 3 + turn &&
            *v.number == 1.5 * (1 << turn));
    CHECKCU(cuMemFree(out));
}

int main() {
    openDevice();
    CUmodule one, two;
    CUfunction step;
    CHECKCU(cuModuleLoadData(&one, ptx));
    CHECKCU(cuModuleLoadData(&two, ptx));
    Variables first = findInModule(one), second = findInModule(two);
    REQUIRE(first.a != second.a && first.plain != second.plain);
    CHECKCU(cuModuleGetFunction(&step, one, "step"));
    for (unsigned turn = 1; turn <= 3; turn++) run(step, first, turn);
    findInModule(two); // untouched
    CHECKCU(cuModuleGetFunction(&step, two, "step"));
    run(step, second, 1);
    CUdeviceptr nothing;
    size_t bytes;
    REPORTCU(cuModuleGetGlobal(&nothing, &bytes, one, "abcd"));
    CHECKCU(cuModuleUnload(one));
    run(step, second, 2);
    CHECKCU(cuModuleLoadData(&one, ptx));
    findInModule(one);
    CHECKCU(cuModuleUnload(one));
    CHECKCU(cuModuleUnload(two));
    printf("modules: as expected\n");

    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr p;
    CHECKCU(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECKCU(cuLibraryGetKernel(&kernel, library, "step"));
    CHECKCU(cuLibraryGetModule(&one, library));
    Variables v = find(one);
    *v.toPlain = (unsigned *)v.plain;
    CHECKCU(cuLibraryGetManaged(&p, &bytes, library, "ab"));
    REQUIRE((unsigned *)p == v.ab && bytes == 12);
    REPORTCU(cuLibraryGetManaged(&p, &bytes, library, "plain"));
    for (unsigned turn = 1; turn <= 3; turn++) run((CUfunction)kernel, v, turn);
    CHECKCU(cuLibraryUnload(library));
    printf("library: as expected\n");
}
