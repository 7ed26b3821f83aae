// SPDX-License-Identifier: Apache-2.0
// Functions of the driver API in each of their versions.
#pragma once
#include "driver.h"

// get returns a function as it was in a version of CUDA: headers name one version only, and none
// that is newer than they are.
template <typename F> inline F *get(const char *function, int version) {
    void *f = nullptr;
    CUdriverProcAddressQueryResult found;
    CHECKCU(cuGetProcAddress(function, &f, version, CU_GET_PROC_ADDRESS_DEFAULT, &found));
    if (!f) fprintf(stderr, "no %s of CUDA %d\n", function, version);
    REQUIRE(f != nullptr && found == CU_GET_PROC_ADDRESS_SUCCESS);
    return (F *)f;
}
