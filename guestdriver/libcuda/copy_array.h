/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_COPY_ARRAY_H
#define PARACUDA_COPY_ARRAY_H

#include <stdbool.h>

#include "cuda_abi.h"

/* A copy one side of which, or both, is an array. */
CUresult copy_with_array(const CUDA_MEMCPY3D *c, CUstream stream, bool async);

#endif
