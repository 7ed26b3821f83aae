// SPDX-License-Identifier: Apache-2.0
// Asks for dumps of the GPU's memory by environment variables or by a context's flags, and has a
// kernel fail. A dump would be a file of the host's, so none may be written. Natively one is, and
// the program is aborted.
#include "versions.h"
#include <unistd.h>

static __global__ void store(int *p) { *p = 1; }

// ASKED names what only dumps of this program are called.
#define ASKED "core_paracuda_dumps"

static const char *const variables[][2] = {
    {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1"},
    {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "1"},
    {"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1"},
    {"CUDA_COREDUMP_FILE", "/tmp/" ASKED ".%p"},
    {"CUDA_COREDUMP_PIPE", "/tmp/corepipe.paracuda_dumps.%p"},
};

// again executes the program once more, with the variables in its environment from the first.
static void again(char **argv) {
    for (auto &v : variables) setenv(v[0], v[1], 1);
    setenv("PARACUDA_TEST_DUMPS", "set", 1);
    execv("/proc/self/exe", argv);
    perror("execv");
    exit(1);
}

// dumping makes a context current that is to write dumps. Toolkits differ in cuCtxCreate's
// parameters, so the driver is asked for a version of it.
static void dumping(unsigned asked) {
    CUcontext context;
    CUdevice device;
    unsigned flags = 0;
    CHECKCU(cuInit(0));
    CHECKCU(cuDeviceGet(&device, 0));
    auto create = get<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020);
    CHECKCU(create(&context, asked, device));
    CHECKCU(cuCtxGetFlags(&flags));
    printf("dumps on failure are told: %d\n", (flags & CU_CTX_COREDUMP_ENABLE) != 0);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "variables";
    if (!strcmp(how, "variables") && !getenv("PARACUDA_TEST_DUMPS")) again(argv);
    if (!strcmp(how, "variables")) openDevice();
    if (!strcmp(how, "failure")) dumping(CU_CTX_COREDUMP_ENABLE);
    if (!strcmp(how, "user")) dumping(CU_CTX_USER_COREDUMP_ENABLE);
    store<<<1, 1>>>((int *)0x10);
    printf("%s:\n", how);
    REPORT(cudaGetLastError());
    REPORTCU(cuCtxSynchronize());
    REPORTCU(cuCtxSynchronize());
}
