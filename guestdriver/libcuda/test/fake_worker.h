/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker in this process: it serves the arena as docs/protocol.md says, with a piece of ordinary
 * memory for the device's, and one kernel: c[i] = a[i] + b[i].
 */
#ifndef PARACUDA_FAKE_WORKER_H
#define PARACUDA_FAKE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "paracuda_wire.h"

#define FAKE_PAIRED 3

struct fake {
	/* Read by the worker, set by tests. */
	int open_error;
	unsigned first_gpu; /* that the library named when it opened */
	int export_error; /* errno of the driver's EXPORT */
	uint32_t import_device; /* of what is imported */
	int post_error; /* atomic: what async_error says for the next command without REPLY */
	uint32_t devices;
	bool linked; /* they have NVLinks and a fabric */
	bool together; /* one command launches kernels on several of them */
	struct paracuda_inventory_pair pair[FAKE_PAIRED * FAKE_PAIRED]; /* ways among so few */
	uint32_t driver_version;
	uint32_t stall_us; /* pause before each batch */
	bool shut; /* takes nothing meanwhile */
	unsigned until_polls, until_waits; /* takes nothing before there were as many */
	bool lie_length; /* answers with lengths beyond the buffers */
	bool lie_handle; /* answers with handles that are default streams */
	bool lie_record; /* answers function records that reach outside */
	bool lie_managed; /* answers with managed variables that are elsewhere */
	/* After the next commands claims so many bytes that were never there, and takes no more */
	uint32_t lie_consumed;
	bool hang; /* answers nothing */
	unsigned max_map; /* maps beyond this many bytes are refused, 0: none */
	unsigned fail_part; /* this PART from now fails, 0: none */
	int function_threads; /* that functions can be launched with */
	int function_bytes; /* of shared memory that they may ask for, as it was set */
	unsigned fail_op; /* atomic: the next command of this op fails, 0: none */
	unsigned fail_copy; /* this copy to the device from now fails, 0: none */
	size_t max_pinned; /* no more bytes than this can be pinned, 0: no limit */

	/* Written by the worker. */
	unsigned commands, replies, launches, kicks, waits, polls, maps, unmaps, nops, thread_exits;
	unsigned maps_out; /* in flight */
	size_t pinned, most_pinned; /* bytes */
	unsigned parts, joins, syncs;
	unsigned keeps; /* HostKeep */
	unsigned entries; /* of launches on several devices */
	uint64_t parameters; /* of the last entry, the first word */
	unsigned opens; /* of memory of other processes */
	unsigned ops[1024]; /* commands by op */
	char environment[4096];
	unsigned environment_bytes;
};

extern struct fake fake;

/* Puts the worker behind the library. */
void fake_install(void);

/* The worker dies. */
void fake_die(void);

/* What is recorded from now on isn't done before the device is idle again. */
void fake_busy(void);
void fake_idle(void);

/* Says whether commands wait for the VM's turn, and wakes those that sleep. */
void fake_hold(bool on);

/* A kernel fails: the context is dead from now on. */
void fake_stick(int error);

/* Text of a kernel, to be printed before the next answer. */
void fake_print(int fd, const char *text);

#endif
