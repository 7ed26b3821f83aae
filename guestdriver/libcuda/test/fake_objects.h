/* SPDX-License-Identifier: Apache-2.0 */
/* The fake worker's objects: those that are made, and those that processes share. */
#ifndef PARACUDA_FAKE_OBJECTS_H
#define PARACUDA_FAKE_OBJECTS_H

#include <stdint.h>

#include "paracuda_wire.h"

/* What a function answers whose command it isn't. */
#define ANOTHERS (-1)

/* A handle that nobody has had. */
uint64_t fake_handle(void);

/* What makes an object, and has no more to answer than its handle. */
int fake_make(const struct paracuda_command *c, uint64_t *out, unsigned *outs);

/* What gives memory and pools to other processes, and takes theirs. */
int fake_share(const struct paracuda_command *c, const uint64_t *w, uint64_t *out, unsigned *outs);

#endif
