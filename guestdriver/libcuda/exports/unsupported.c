/* SPDX-License-Identifier: Apache-2.0 */
#include "exports/unsupported.h"

#include <string.h>

#include "base/log.h"
#include "base/state.h"
#include "transport/zz_generated_layouts.h"

/* Makes the worker say it in the host's log, which the VM's owner reads. */
static void report(const char *name)
{
	struct request r;

	if (state_check() != CUDA_SUCCESS)
		return;
	request_begin(&r, PARACUDA_OP_REPORT, 0, false);
	words_REPORT(&r, argument_inline(name, strlen(name) + 1));
	channel_post(&r);
}

CUresult unsupported(const char *name, int *said)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED)) {
		log_line("%s is not supported", name);
		report(name);
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}
