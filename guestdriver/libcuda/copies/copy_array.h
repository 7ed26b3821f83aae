/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_COPY_ARRAY_H
#define PARACUDA_COPY_ARRAY_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

/* A copy one side of which, or both, is an array; `source` as for copy_3d. */
CUresult copy_with_array(const CUDA_MEMCPY3D *c, int source, CUstream stream, bool async);

#endif
