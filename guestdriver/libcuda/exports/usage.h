/* SPDX-License-Identifier: Apache-2.0 */
/* What the VM has of a GPU, by the host's count (paracuda_table.h). */
#ifndef PARACUDA_USAGE_H
#define PARACUDA_USAGE_H

#include "abi/cuda_abi.h"
#include "paracuda_table.h"

CUresult device_usage(struct paracuda_usage *usage, CUdevice dev);

#endif
