/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_COPY_PARTS_H
#define PARACUDA_COPY_PARTS_H

#include "context/zz_generated_commands.h"

/* A request for a copy between device memory and a buffer. op: OP_CopyHtoD or OP_CopyDtoH. */
static inline void copy_request(struct request *r, unsigned op, uint64_t device,
				struct argument host, size_t bytes, uint64_t stream, unsigned flags)
{
	if (op == OP_CopyHtoD)
		request_CopyHtoD(r, &(struct args_CopyHtoD){ device, host, bytes, stream, flags });
	else
		request_CopyDtoH(r, &(struct args_CopyDtoH){ device, host, bytes, stream, flags });
	r->payload = bytes;
}

/*
 * Copies between the device and ordinary memory of the process, by pinning it part by part. Returns
 * when the source may be changed, or when all has arrived.
 */
CUresult copy_parts(unsigned op, uint64_t device, uint8_t *host, size_t bytes, CUstream stream);

#endif
