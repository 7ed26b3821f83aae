/* SPDX-License-Identifier: Apache-2.0 */
/* Events while the device is busy: the thread that waits for one is answered when it is idle. */
#ifndef PARACUDA_FAKE_EVENTS_H
#define PARACUDA_FAKE_EVENTS_H

#include "paracuda_wire.h"

/* Executes cuEventQuery or cuEventSynchronize. */
int fake_event(const struct paracuda_command *c);

#endif
