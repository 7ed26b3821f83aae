/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of cuGetProcAddress: for each base name the symbols by the version that introduced
 * them.
 */
#ifndef PARACUDA_PROCADDRESS_H
#define PARACUDA_PROCADDRESS_H

struct proc_version {
	int version; /* 0 ends the list */
	void (*symbol)(void);
};

struct proc {
	const char *name;
	const struct proc_version *legacy;
	const struct proc_version *per_thread; /* NULL: the same */
};

extern const struct proc procs[]; /* ascending by name */
extern const unsigned procs_count;

#endif
