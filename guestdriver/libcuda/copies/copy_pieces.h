/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_COPY_PIECES_H
#define PARACUDA_COPY_PIECES_H

#include "transport/channel.h"

/*
 * Copies between the device and ordinary memory of the process, by pinning it piece by piece. op: OP_CopyHtoD or
 * OP_CopyDtoH. Returns when the source may be changed, or all has arrived.
 */
CUresult copy_pieces(unsigned op, uint64_t device, uint8_t *host, size_t bytes, CUstream stream);

#endif
