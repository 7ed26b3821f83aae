/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debuggers look for in the library. There is no interface for them: the two functions that
 * should give it say so.
 */
#define _GNU_SOURCE
#include "base/state.h"

#define CUDBG_ERROR_UNKNOWN 1u

uint32_t cudbgGetAPI(uint32_t major, uint32_t minor, uint32_t revision, void **api);
uint32_t cudbgGetAPIVersion(uint32_t *major, uint32_t *minor, uint32_t *revision);
void cudbgMain(void);
void cudbgApiInit(uint32_t arg);
void cudbgApiAttach(void);
void cudbgApiDetach(void);
void cudbgReportDriverApiError(void);
void cudbgReportDriverInternalError(void);

EXPORT uint32_t cudbgGetAPI(uint32_t major, uint32_t minor, uint32_t revision, void **api)
{
	(void)major;
	(void)minor;
	(void)revision;
	(void)api;
	return CUDBG_ERROR_UNKNOWN;
}

EXPORT uint32_t cudbgGetAPIVersion(uint32_t *major, uint32_t *minor, uint32_t *revision)
{
	(void)major;
	(void)minor;
	(void)revision;
	return CUDBG_ERROR_UNKNOWN;
}

/* The others are places for breakpoints, which a debugger expects to be called. */
EXPORT void cudbgMain(void)
{
}
EXPORT void cudbgApiInit(uint32_t arg)
{
	(void)arg;
}
EXPORT void cudbgApiAttach(void)
{
}
EXPORT void cudbgApiDetach(void)
{
}
EXPORT void cudbgReportDriverApiError(void)
{
}
EXPORT void cudbgReportDriverInternalError(void)
{
}
