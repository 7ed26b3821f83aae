/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARACUDA_IPC_H
#define PARACUDA_IPC_H

#include "context/context.h"

/*
 * Forgets the memory of other processes that was opened in a context, which has ended: it isn't
 * mapped any more.
 */
void ipc_forget_context(const struct context *c);

#endif
