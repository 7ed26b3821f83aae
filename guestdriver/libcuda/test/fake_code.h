/* SPDX-License-Identifier: Apache-2.0 */
/* The fake worker's code: images, managed variables, and the one kernel that there is. */
#ifndef PARACUDA_FAKE_CODE_H
#define PARACUDA_FAKE_CODE_H

#include <stdint.h>

#include "paracuda_wire.h"

int fake_code(const struct paracuda_command *c, const uint8_t *at, const uint64_t *w, uint64_t *out,
	      unsigned *outs);

#endif
