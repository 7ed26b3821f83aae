// SPDX-License-Identifier: Apache-2.0
// Asks for names that a module doesn't have, and for symbols and functions that are none.
#include "driver.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .global .align 4 .u32 variable;\n"
                          ".visible .entry kernel() { ret; }\n";

__device__ int known;
static int plain;

int main() {
    openDevice();
    CUmodule module;
    CUfunction f;
    CUdeviceptr p;
    size_t size;
    CHECKCU(cuModuleLoadData(&module, ptx));
    REPORTCU(cuModuleGetFunction(&f, module, "kernel"));
    REPORTCU(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    REPORTCU(cuCtxSynchronize());
    REPORTCU(cuModuleGetFunction(&f, module, "kernels"));
    REPORTCU(cuModuleGetFunction(&f, module, "variable"));
    REPORTCU(cuModuleGetFunction(&f, module, ""));
    REPORTCU(cuModuleGetGlobal(&p, &size, module, "variable"));
    REPORTCU(cuModuleGetGlobal(&p, &size, module, "kernel"));
    REPORTCU(cuModuleGetGlobal(&p, &size, module, "nothing"));
    REPORTCU(cuModuleUnload(module));

    void *address;
    int value = 7;
    REPORT(cudaGetSymbolAddress(&address, known));
    REPORT(cudaGetSymbolAddress(&address, plain));
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpyToSymbol(plain, &value, sizeof value));
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpyToSymbol(known, &value, sizeof value));
    REPORT(cudaMemcpyToSymbol(known, &value, sizeof value, 4));
    REPORT(cudaGetLastError());
    cudaFuncAttributes attributes;
    REPORT(cudaFuncGetAttributes(&attributes, (const void *)main));
    REPORT(cudaGetLastError());
    REPORT(cudaMemcpyFromSymbol(&value, known, sizeof value));
}
