/* SPDX-License-Identifier: Apache-2.0 */
/* Whole pages of this process's memory. */
#ifndef PARACUDA_PAGE_H
#define PARACUDA_PAGE_H

#include <stdint.h>
#include <unistd.h>

static inline uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The beginning of the page that has an address. */
static inline uint64_t page_begin(uint64_t address)
{
	return address & ~(page_bytes() - 1);
}

/* The beginning of the first page at or after an address. */
static inline uint64_t page_end(uint64_t address)
{
	return page_begin(address + page_bytes() - 1);
}

#endif
