/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that aren't there. */
#ifndef PARACUDA_UNSUPPORTED_H
#define PARACUDA_UNSUPPORTED_H

#include "abi/cuda_abi.h"

/*
 * Says once per name that the program called a function that isn't there, to the log and to the
 * host. `said` is the name's own note of that. Returns NOT_SUPPORTED.
 */
CUresult unsupported(const char *name, int *said);

#endif
