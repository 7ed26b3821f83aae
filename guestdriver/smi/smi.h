/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small nvidia-smi for VMs that have none of NVIDIA's: the table, -L, and the queries that
 * programs make, in the same format. It asks only libnvidia-ml.so.1, through its public functions.
 *
 * library.c finds these, card.c asks them of one GPU, fields.c has what can be queried, query.c
 * and table.c print, smi.c reads the command line.
 */
#ifndef PARACUDA_SMI_H
#define PARACUDA_SMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvml.h"

/* Exit codes, as nvidia-smi's. */
enum {
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 6,
	EXIT_NO_DRIVER = 9,
	EXIT_NO_LIBRARY = 12,
};

enum { NAME_MAX_BYTES = 96, TEXT_MAX = 128, PROCESSES_MAX = 256 };

/* NVML's functions by their names. All but the first may be missing: then NULL. */
struct library {
	enum nvml (*init)(void);
	enum nvml (*count)(unsigned *n);
	enum nvml (*by_index)(unsigned index, void **handle);
	enum nvml (*name)(const void *handle, char *name, unsigned length);
	enum nvml (*uuid)(const void *handle, char *uuid, unsigned length);
	enum nvml (*pci)(const void *handle, struct pci_info *out);
	enum nvml (*memory)(const void *handle, struct memory *out);
	enum nvml (*utilization)(const void *handle, struct utilization *out);
	enum nvml (*capability)(const void *handle, int *major, int *minor);
	enum nvml (*persistence)(const void *handle, unsigned *out);
	enum nvml (*gen)(const void *handle, unsigned *out);
	enum nvml (*gen_max)(const void *handle, unsigned *out);
	enum nvml (*width)(const void *handle, unsigned *out);
	enum nvml (*width_max)(const void *handle, unsigned *out);
	enum nvml (*processes)(const void *handle, unsigned *count, void *infos);
	enum nvml (*process_name)(unsigned pid, char *name, unsigned length);
	enum nvml (*driver)(char *version, unsigned length);
	enum nvml (*cuda)(int *version);
};

/* Opens the library and initialises it. Returns 0, or an exit code, and has said why. */
int library_open(struct library *l);

/* A GPU as it is now. What isn't known is false. */
struct card {
	unsigned index;
	char name[NAME_MAX_BYTES], uuid[96];
	struct pci_info pci;
	bool memory_known, utilization_known, capability_known;
	struct memory memory;
	struct utilization utilization;
	int major, minor;
	bool persistent;
	/* Of PCI Express; 0 where unknown. */
	unsigned gen, gen_max, width, width_max;
	unsigned processes;
	struct process process[PROCESSES_MAX];
};

/* The VM: its versions and its GPUs. */
struct machine {
	char driver[80];
	int cuda;
	unsigned count;
	struct card *cards;
};

/*
 * Asks for the GPUs; `only`, if it isn't empty, names one by index, UUID or place on the bus.
 * Returns 0 or an exit code, and has said why.
 */
int machine_look(const struct library *l, const char *only, struct machine *m);

/* Something that can be queried of a GPU. */
struct field {
	const char *name, *other_name;
	const char *unit; /* NULL: none */
	/* Writes the value; false: not known. NULL: never known in a VM. */
	bool (*value)(const struct machine *m, const struct card *c, char *to);
	const char *unknown; /* what is printed then; NULL: "[N/A]" */
};

/* The field of that name, or NULL. */
const struct field *field_find(const char *name);

/* Prints all names that can be queried. */
void fields_print(void);

struct csv {
	bool header, units;
};

/* These print and return 0 or an exit code. */
int query_gpus(const struct machine *m, const char *names, struct csv how);
int query_processes(const struct library *l, const struct machine *m, const char *names,
		    struct csv how);
int list_gpus(const struct machine *m);
void print_table(const struct library *l, const struct machine *m);

/* The time as nvidia-smi's queries write it: 24 bytes and an end. */
void time_text(char *to, size_t room);

#endif
