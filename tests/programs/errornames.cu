// SPDX-License-Identifier: Apache-2.0
// Names and texts of errors from the driver and the runtime.
#include "driver.h"

int main() {
    CHECKCU(cuInit(0));
    for (int code : {0,   1,   2,   3,   4,   100, 101, 200, 201, 209, 218, 222, 301, 304, 400,
                     500, 600, 700, 701, 702, 709, 710, 715, 716, 717, 719, 801, 900, 999}) {
        const char *name = nullptr, *text = nullptr;
        CUresult a = cuGetErrorName(CUresult(code), &name),
                 b = cuGetErrorString(CUresult(code), &text);
        printf("%d: %d %s, %d %s\n", code, int(a), name ? name : "-", int(b), text ? text : "-");
    }
    const char *name = "kept";
    printf("12345: %d", int(cuGetErrorName(CUresult(12345), &name)));
    printf(" %s\n", name ? name : "-");
    for (int code : {0, 1, 2, 3, 9, 11, 35, 100, 400, 500, 700, 701, 710, 719, 801, 999, 12345})
        printf("%d: %s, %s\n", code, cudaGetErrorName(cudaError_t(code)),
               cudaGetErrorString(cudaError_t(code)));
}
