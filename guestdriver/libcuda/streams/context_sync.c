/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for everything in a context. */
#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "streams/capture.h"

EXPORT CUresult cuCtxSynchronize(void)
{
	struct request r;
	CUresult result;

	ENTER_CONTEXT();
	result = capture_everything();
	if (result)
		return result;
	request_init(&r, OP_cuCtxSynchronize);
	r.exact = true;
	return channel_synced(channel_call(&r, NULL, 0));
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
	request_init(&r, OP_cuCtxSynchronize);
	r.exact = true;
	r.context = c->handle;
	return channel_synced(channel_call(&r, NULL, 0));
}
