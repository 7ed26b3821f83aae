/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake worker does with each command. */
#ifndef PARACUDA_FAKE_DEVICE_H
#define PARACUDA_FAKE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "paracuda_wire.h"

#define FAKE_LATER (-1) /* the answer comes later */

void fake_device_init(void);

/* Where its memory is. */
uint64_t fake_window(void);

/* Executes the command at `at`: its result, and the words of its answer. */
int fake_execute(const struct paracuda_command *c, const uint8_t *at, uint64_t *out,
		 unsigned *outs);

void fake_count(unsigned *counter);
uint8_t *fake_arena(void);
void fake_answer(unsigned slot, uint32_t seq, int result, const uint64_t *word, unsigned words);

/*
 * Announces the next host function if the guest has returned from the one before; true if it did.
 */
bool fake_host_functions(uint32_t done);

#endif
