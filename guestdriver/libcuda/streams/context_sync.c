/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for everything in a context. */
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_commands.h"
#include "streams/capture.h"

EXPORT CUresult cuCtxSynchronize(void)
{
	CUresult result;

	ENTER_CONTEXT();
	result = capture_everything();
	return result ? result : channel_synced(call_cuCtxSynchronize());
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	struct context *c;
	struct request r;
	CUresult result;

	ENTER();
	result = capture_everything();
	if (result)
		return result;
	result = context_resolve(ctx, &c);
	if (result)
		return result;
	request_cuCtxSynchronize(&r);
	r.context = c->handle;
	return channel_synced(channel_call(&r, NULL, 0));
}
