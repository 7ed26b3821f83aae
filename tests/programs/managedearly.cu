// SPDX-License-Identifier: Apache-2.0
// Managed variables of a library whose addresses are asked for before there is a context, as the
// runtime of CUDA 13 does: they have their initial values once there is one.
#include "driver.h"

static const char ptx[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 number = 7;
.visible .global .attribute(.managed) .align 4 .u32 numbers[3] = {10, 20, 30};
.visible .global .attribute(.managed) .align 8 .b8 zeros[40960];

.visible .entry step()
{
    .reg .b32 %r<2>;
    ld.global.u32 %r0, [number];
    ld.global.u32 %r1, [numbers+8];
    add.u32 %r0, %r0, %r1;
    st.global.u32 [number], %r0;
    st.global.u8 [zeros+40959], 90;
    ret;
}
)";

static void *address(CUlibrary library, const char *name, size_t want) {
    CUdeviceptr p;
    size_t bytes;
    CHECKCU(cuLibraryGetManaged(&p, &bytes, library, name));
    REQUIRE(bytes == want);
    return (void *)p;
}

int main() {
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;
    CUdeviceptr p;
    size_t bytes;
    CHECKCU(cuInit(0));
    CHECKCU(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    unsigned *number = (unsigned *)address(library, "number", 4);
    unsigned *numbers = (unsigned *)address(library, "numbers", 12);
    unsigned char *zeros = (unsigned char *)address(library, "zeros", 40960);
    openDevice();
    REQUIRE(*number == 7 && numbers[0] == 10 && numbers[1] == 20 && numbers[2] == 30);
    for (int i = 0; i < 40960; i++) REQUIRE(zeros[i] == 0);
    printf("initial values: as expected\n");

    *number = 100;
    CHECKCU(cuLibraryGetKernel(&kernel, library, "step"));
    CHECKCU(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    CHECKCU(cuCtxSynchronize());
    REQUIRE(*number == 130 && zeros[40959] == 90 && zeros[40958] == 0);
    CHECKCU(cuLibraryGetModule(&module, library));
    CHECKCU(cuModuleGetGlobal(&p, &bytes, module, "number"));
    REQUIRE((unsigned *)p == number && bytes == 4);
    REQUIRE(address(library, "numbers", 12) == numbers);
    CHECKCU(cuLibraryUnload(library));
    printf("used: as expected\n");
}
