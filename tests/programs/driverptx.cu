// SPDX-License-Identifier: Apache-2.0
// Loads PTX text by the driver API, from memory and from a file, and launches its kernels.
#include "driver.h"
#include <unistd.h>
#include <vector>

static const char ptx[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .global .align 4 .u32 launches = 5;

.visible .entry saxpy(.param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
    .reg .pred %out;
    .reg .f32 %a, %x, %y;
    .reg .b32 %i, %n, %t, %b, %d;
    .reg .b64 %px, %py, %off, %pl;
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mov.u32 %d, %ntid.x;
    mad.lo.u32 %i, %b, %d, %t;
    ld.param.u32 %n, [n];
    setp.ge.u32 %out, %i, %n;
    @%out bra done;
    ld.param.u64 %px, [x];
    ld.param.u64 %py, [y];
    ld.param.f32 %a, [a];
    cvta.to.global.u64 %px, %px;
    cvta.to.global.u64 %py, %py;
    mul.wide.u32 %off, %i, 4;
    add.u64 %px, %px, %off;
    add.u64 %py, %py, %off;
    ld.global.f32 %x, [%px];
    ld.global.f32 %y, [%py];
    fma.rn.f32 %y, %a, %x, %y;
    st.global.f32 [%py], %y;
    setp.ne.u32 %out, %i, 0;
    @%out bra done;
    mov.u64 %pl, launches;
    red.global.add.u32 [%pl], 1;
done:
    ret;
}

.visible .entry ignore(.param .u32 a, .param .u32 b, .param .u32 c) { ret; }
.visible .entry nothing() { ret; }
)";

static void launch(CUmodule module, int n, unsigned before) {
    CUfunction saxpy;
    CHECKCU(cuModuleGetFunction(&saxpy, module, "saxpy"));
    std::vector<float> x(n), y(n), got(n);
    for (int i = 0; i < n; i++) x[i] = i, y[i] = 1000 - i;
    CUdeviceptr dx, dy, counter;
    size_t size = n * sizeof(float), counterSize;
    CHECKCU(cuMemAlloc(&dx, size));
    CHECKCU(cuMemAlloc(&dy, size));
    CHECKCU(cuMemcpyHtoD(dx, x.data(), size));
    CHECKCU(cuMemcpyHtoD(dy, y.data(), size));
    float a = 3;
    void *args[] = {&dx, &dy, &a, &n};
    CHECKCU(cuLaunchKernel(saxpy, (n + 63) / 64, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr));
    CHECKCU(cuCtxSynchronize());
    CHECKCU(cuMemcpyDtoH(got.data(), dy, size));
    for (int i = 0; i < n; i++) REQUIRE(got[i] == a * x[i] + y[i]);
    unsigned launches;
    CHECKCU(cuModuleGetGlobal(&counter, &counterSize, module, "launches"));
    CHECKCU(cuMemcpyDtoH(&launches, counter, sizeof launches));
    REQUIRE(counterSize == sizeof launches && launches == before + 1);
    printf("%d elements right, last %.1f, launches %u\n", n, got[n - 1], launches);
    CHECKCU(cuMemFree(dx));
    CHECKCU(cuMemFree(dy));
}

// packed launches with parameters in one buffer, of the size that the kernel takes and of others.
static void packed(CUmodule module, const char *name) {
    CUfunction f;
    CHECKCU(cuModuleGetFunction(&f, module, name));
    for (size_t size = 0; size <= 20; size += 4) {
        char buffer[32] = {};
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};
        const CUresult result = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
        printf("%s with %zu bytes: %d, then %d\n", name, size, int(result),
               int(cuCtxSynchronize()));
    }
}

int main() {
    openDevice();
    CUmodule module, fromFile;
    CHECKCU(cuModuleLoadData(&module, ptx));
    launch(module, 1, 5);
    launch(module, 5000, 6);
    packed(module, "ignore");
    packed(module, "nothing");

    char path[] = "/tmp/driverptx-XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0 && write(fd, ptx, sizeof ptx - 1) == ssize_t(sizeof ptx - 1));
    close(fd);
    CHECKCU(cuModuleLoad(&fromFile, path));
    unlink(path);
    launch(fromFile, 77, 5);
    CHECKCU(cuModuleUnload(fromFile));
    CHECKCU(cuModuleUnload(module));

    REPORTCU(
        cuModuleLoadData(&module, ".version 7.0\n.target sm_75\n.entry broken( { nonsense }\n"));
    REPORTCU(cuModuleLoad(&module, "/no/such/file.ptx"));
}
