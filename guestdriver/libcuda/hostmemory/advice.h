/* SPDX-License-Identifier: Apache-2.0 */
/* What programs advised about managed memory: remembered by the page. */
#ifndef PARACUDA_ADVICE_H
#define PARACUDA_ADVICE_H

#include <stdbool.h>

#include "abi/cuda_abi.h"

struct memory;

/* What was asked for. CU_MEM_LOCATION_TYPE_INVALID: no location. */
struct advice {
	CUmemLocation preferred, prefetched;
	uint64_t accessed_by; /* devices */
	bool accessed_by_host, read_mostly;
};

/* Calls `change` with the advice of each page in [base, end), whole pages of m. */
CUresult advice_change(const struct memory *m, uint64_t base, uint64_t end,
		       void (*change)(struct advice *a, CUmemLocation l), CUmemLocation location);

/* The advice that holds for every page of a range. */
struct advice advice_common(uint64_t base, uint64_t end);

/* Forgets what was advised for a range. */
void advice_forget(uint64_t base, uint64_t bytes);

#endif
