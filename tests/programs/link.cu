// SPDX-License-Identifier: Apache-2.0
// Links two PTX texts, one of which calls a function of the other, and runs the result.
#include "driver.h"
#include <cstring>
#include <vector>

static const char caller[] = R"(
.version 7.0
.target sm_75
.address_size 64

.extern .func (.param .b32 out) twice(.param .b32 in);

.visible .entry apply(.param .u64 p)
{
    .reg .b32 %v, %t;
    .reg .b64 %a, %off;
    ld.param.u64 %a, [p];
    cvta.to.global.u64 %a, %a;
    mov.u32 %t, %tid.x;
    mul.wide.u32 %off, %t, 4;
    add.u64 %a, %a, %off;
    ld.global.u32 %v, [%a];
    {
        .param .b32 in;
        .param .b32 out;
        st.param.b32 [in], %v;
        call.uni (out), twice, (in);
        ld.param.b32 %v, [out];
    }
    st.global.u32 [%a], %v;
    ret;
}
)";

static const char callee[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .func (.param .b32 out) twice(.param .b32 in)
{
    .reg .b32 %v;
    ld.param.b32 %v, [in];
    add.u32 %v, %v, %v;
    add.u32 %v, %v, 1;
    st.param.b32 [out], %v;
    ret;
}
)";

static const char broken[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.entry broken( { nonsense }\n";

int main() {
    openDevice();
    char info[4096] = "", error[4096] = "";
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_LOG_VERBOSE};
    void *values[] = {info, (void *)sizeof info, error, (void *)sizeof error, (void *)1};
    CUlinkState link;
    CHECKCU(cuLinkCreate(5, options, values, &link));
    CHECKCU(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)caller, sizeof caller, "caller", 0,
                          nullptr, nullptr));
    CHECKCU(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)callee, sizeof callee, "callee", 0,
                          nullptr, nullptr));
    void *cubin;
    size_t size;
    CHECKCU(cuLinkComplete(link, &cubin, &size));
    REQUIRE(cubin && size > 0);
    CUmodule module;
    CHECKCU(cuModuleLoadData(&module, cubin));
    CHECKCU(cuLinkDestroy(link));
    printf("information: %s\n", strlen(info) > 0 ? "some" : "none");

    CUfunction apply;
    CHECKCU(cuModuleGetFunction(&apply, module, "apply"));
    std::vector<unsigned> v(64);
    for (unsigned i = 0; i < v.size(); i++) v[i] = i;
    CUdeviceptr p;
    CHECKCU(cuMemAlloc(&p, v.size() * 4));
    CHECKCU(cuMemcpyHtoD(p, v.data(), v.size() * 4));
    void *args[] = {&p};
    CHECKCU(cuLaunchKernel(apply, 1, 1, 1, 64, 1, 1, 0, nullptr, args, nullptr));
    CHECKCU(cuMemcpyDtoH(v.data(), p, v.size() * 4));
    for (unsigned i = 0; i < v.size(); i++) REQUIRE(v[i] == 2 * i + 1);
    puts("linked code runs");

    values[1] = (void *)sizeof info, values[3] = (void *)sizeof error;
    CHECKCU(cuLinkCreate(5, options, values, &link));
    CUresult r = cuLinkAddData(link, CU_JIT_INPUT_PTX, (void *)broken, sizeof broken, "broken", 0,
                               nullptr, nullptr);
    if (r == CUDA_SUCCESS) r = cuLinkComplete(link, &cubin, &size);
    printf("broken: %s, error log: %s\n", name(r), strlen(error) > 0 ? "some" : "none");
    CHECKCU(cuLinkDestroy(link));
    REPORTCU(cuLinkAddFile(link, CU_JIT_INPUT_PTX, "/no/such/file.ptx", 0, nullptr, nullptr));
    return 0;
}
