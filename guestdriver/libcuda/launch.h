/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_LAUNCH_H
#define PARACUDA_LAUNCH_H

#include "cuda_abi.h"

struct description;

/* Reads CUDA_LAUNCH_BLOCKING. */
void launch_init(void);

/* The packed parameters of the `extra` form. */
CUresult launch_extra(void **extra, const void **data, size_t *bytes);

/* Packs parameters by the function's layout. */
void launch_pack(uint8_t *to, const struct description *d, void **parameters);

#endif
