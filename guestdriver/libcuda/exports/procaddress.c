/* SPDX-License-Identifier: Apache-2.0 */
#include "exports/procaddress.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/zz_generated_prototypes.h"
#include "devices/device.h"

enum { FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT };
enum { FLAG_DEFAULT, FLAG_LEGACY, FLAG_PER_THREAD };

static int compare(const void *name, const void *proc)
{
	return strcmp(name, ((const struct proc *)proc)->name);
}

/* The newest version not above the one asked for. */
static void (*newest(const struct proc_version *list, int version))(void)
{
	void (*symbol)(void) = 0;

	for (; list && list->version; list++)
		if (list->version <= version)
			symbol = list->symbol;
	return symbol;
}

static int look_up(const char *name, int version, uint64_t flags, void (**symbol)(void))
{
	const struct proc *p = bsearch(name, procs, procs_count, sizeof(*procs), compare);

	*symbol = 0;
	if (!p)
		return SYMBOL_NOT_FOUND;
	if (flags == FLAG_PER_THREAD)
		*symbol = newest(p->per_thread, version);
	if (!*symbol)
		*symbol = newest(p->legacy, version);
	return *symbol ? FOUND : VERSION_NOT_SUFFICIENT;
}

static CUresult check(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	if (!symbol || !pfn || flags > FLAG_PER_THREAD || version > DRIVER_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static void store(void **pfn, void (*symbol)(void))
{
	memcpy(pfn, &symbol, sizeof(symbol));
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	void (*found)(void);
	CUresult result = check(symbol, pfn, cudaVersion, flags);

	if (result)
		return result;
	if (look_up(symbol, cudaVersion, flags, &found) != FOUND)
		return CUDA_ERROR_NOT_FOUND;
	store(pfn, found);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	void (*found)(void);
	CUresult result = check(symbol, pfn, cudaVersion, flags);
	int status;

	if (result)
		return result;
	status = look_up(symbol, cudaVersion, flags, &found);
	if (status == SYMBOL_NOT_FOUND && *symbol)
		log_line("cuGetProcAddress: no %s", symbol);
	store(pfn, found);
	if (symbolStatus)
		*symbolStatus = status;
	return CUDA_SUCCESS;
}
