/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's tools, which need tables of functions that only its own libcuda.so.1 has. */
#ifndef PARACUDA_TOOLS_H
#define PARACUDA_TOOLS_H

#include "abi/cuda_abi.h"

/* Code at `caller` has asked for a table that isn't there. */
void tools_asked(const CUuuid *id, const void *caller);

#endif
