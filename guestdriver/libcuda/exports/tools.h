/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's tools, which reach into its libcuda.so.1 by tables of functions that nobody else has. */
#ifndef PARACUDA_TOOLS_H
#define PARACUDA_TOOLS_H

#include "abi/cuda_abi.h"

/* Code at `caller` has asked for a table that there isn't. */
void tools_asked(const CUuuid *id, const void *caller);

#endif
