/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a thread polls for an answer before it sleeps. Natively, it polls while the device
 * works.
 */
#ifndef PARACUDA_POLLING_H
#define PARACUDA_POLLING_H

#include <stdbool.h>
#include <stdint.h>

/* Notes that a copy of so many bytes was queued, for which later calls will wait. */
void polling_queued(uint64_t bytes);

/*
 * How long to poll, in ticks from `now` on, for the answer of a call that copies payload bytes
 * itself. In a context that sleeps that is short.
 */
uint64_t polling_ticks(uint64_t payload, bool sleeps, uint64_t now);

/* How long to poll at least, in ticks, even while the call waits for the VM's turn on the GPU. */
uint64_t polling_while_held(void);

/* How long the kernel driver polls for the answer after that, in nanoseconds. */
uint64_t polling_in_driver(bool sleeps);

#endif
