/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread polls for an answer before it sleeps: natively, too, it polls while the device
 * works.
 */
#ifndef PARACUDA_POLLING_H
#define PARACUDA_POLLING_H

#include <stdbool.h>
#include <stdint.h>

/* Notes that a copy of so many bytes was queued, which later calls will wait for. */
void polling_queued(uint64_t bytes);

/*
 * How long the answer of a call that moves payload bytes itself is polled for from `now` on, in
 * ticks. In a context that sleeps, it is polled for a short time only.
 */
uint64_t polling_ticks(uint64_t payload, bool sleeps, uint64_t now);

/* How long at least, even if the call waits for the VM's turn on the GPU, in ticks. */
uint64_t polling_while_held(void);

/* How long the kernel driver polls for it after that, in nanoseconds. */
uint64_t polling_in_driver(bool sleeps);

#endif
