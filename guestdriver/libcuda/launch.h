/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_LAUNCH_H
#define PARACUDA_LAUNCH_H

#include "cuda_abi.h"

/* Reads CUDA_LAUNCH_BLOCKING. */
void launch_init(void);

#endif
