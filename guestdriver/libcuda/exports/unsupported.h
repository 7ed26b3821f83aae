/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that aren't there. */
#ifndef PARACUDA_UNSUPPORTED_H
#define PARACUDA_UNSUPPORTED_H

#include "abi/cuda_abi.h"

/*
 * Says in the log, and to the host, that the program called a function that isn't there. It says so
 * once per name, which `said` remembers. Returns NOT_SUPPORTED.
 */
CUresult unsupported(const char *name, int *said);

#endif
