/* SPDX-License-Identifier: Apache-2.0 */
/* The fake worker's objects: those that are made, and those that processes share. */
#ifndef PARACUDA_FAKE_OBJECTS_H
#define PARACUDA_FAKE_OBJECTS_H

#include <stdint.h>

#include "paracuda_wire.h"

/* What a function answers whose command it isn't. */
#define ANOTHERS (-1)

/*
 * Words of a command and of its answer have generated places (zz_generated_words.h). Fields of half
 * a word count halves.
 */
static inline uint32_t fake_half(const uint64_t *w, unsigned half)
{
	return (uint32_t)(w[half / 2] >> 32 * (half % 2));
}

/* Answers a word, and with it all before it. */
static inline void fake_say(uint64_t *out, unsigned *outs, unsigned place, uint64_t value)
{
	out[place] = value;
	if (*outs <= place)
		*outs = place + 1;
}

/* A handle that nobody has had. */
uint64_t fake_handle(void);

/* What makes an object, and has no more to answer than its handle. */
int fake_make(const struct paracuda_command *c, uint64_t *out, unsigned *outs);

/* What gives memory and pools to other processes, and takes theirs. */
int fake_share(const struct paracuda_command *c, const uint64_t *w, uint64_t *out, unsigned *outs);

#endif
