/* SPDX-License-Identifier: GPL-2.0 */
/* How long things may take, and how much there may be of them. paracuda.h includes it. */
#ifndef PARACUDA_LIMITS_H
#define PARACUDA_LIMITS_H

#include <linux/bits.h>
#include <linux/jiffies.h>
#include <linux/time64.h>

#include "paracuda_wire.h"

/* How long the host may take to answer. */
#define PARACUDA_OPEN_TIMEOUT	(120 * HZ)
/* How long EXPORT and IMPORT wait for the host. */
#define PARACUDA_SHARE_TIMEOUT	(60 * HZ)
/* How long OPEN waits for a channel that is being closed. */
#define PARACUDA_CLAIM_TIMEOUT	(10 * HZ)
/* How long an orderly removal, and the guest's end, wait for the workers to end. */
#define PARACUDA_REMOVE_TIMEOUT	(3 * HZ)
#define PARACUDA_REBOOT_TIMEOUT	(HZ / 5)
/* How long the device may take to give back what it has of the control queue. */
#define PARACUDA_LEAVE_TIMEOUT	HZ
/* How long the device may take to hear that it may go away, and how long it may be away. */
#define PARACUDA_AWAY_TIMEOUT	(5 * HZ)
#define PARACUDA_PATIENCE_MAX	86400U
/* How often returned ONESHOT maps are looked for while nobody asks. */
#define PARACUDA_POLL_MS	15
/* How long an answer or an EVENT may be there before it is looked for without an interrupt. */
#define PARACUDA_CONTROL_POLL	(HZ / 10)
#define PARACUDA_WAIT_POLL	NSEC_PER_SEC
/* How often a queue's interrupts may go to another processor. */
#define PARACUDA_PLACE_EVERY	HZ
/* How long a thread polls at most. */
#define PARACUDA_SPIN_MAX	((u64)NSEC_PER_SEC)
#define PARACUDA_SPIN_ALONE	(150ULL * NSEC_PER_USEC)

/* Of a device, in User Mode Linux. */
#define PARACUDA_UML_QUEUES	64

#define PARACUDA_ARENA_MAX	BIT(30)
#define PARACUDA_MAP_BYTES_MAX	BIT_ULL(32)	/* a reference has 32 bits of offset ... */
#define PARACUDA_MAP_ID_MAX	((1U << 24) - 1)	/* ... and 24 bits of id */

#define PARACUDA_LISTS		DIV_ROUND_UP(PARACUDA_RUNS_PER_MAP, PARACUDA_RUNS_PER_LIST)
/* So many pages need no page for their list: what most programs register is small. */
#define PARACUDA_FEW		16

#endif
