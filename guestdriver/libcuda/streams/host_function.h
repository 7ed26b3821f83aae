/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the program that graphs call. */
#ifndef PARACUDA_HOST_FUNCTION_H
#define PARACUDA_HOST_FUNCTION_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

/* Numbers a function for host nodes; it may be called at any later time. */
CUresult host_function_keep(CUhostFn fn, void *data, uint64_t *token);

/* The function of a number; false if there is none. */
bool host_function_find(uint64_t token, CUhostFn *fn, void **data);

#endif
