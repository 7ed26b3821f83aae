/* SPDX-License-Identifier: Apache-2.0 */
/* Functions and kernels: the parameter layout and attributes, asked for once and kept. */
#ifndef PARACUDA_FUNCTION_H
#define PARACUDA_FUNCTION_H

#include "context/handle.h"

struct parameter {
	uint32_t offset;
	uint32_t bytes;
};

/* How many configurations of launches that the driver has accepted are remembered. */
#define PROVEN 8

/* Of how many contexts a kernel's functions are remembered. */
#define KNOWN_FUNCTIONS 8

struct description {
	unsigned parameters;
	uint32_t parameter_bytes;
	bool dense; /* no byte of them lies between two parameters */
	unsigned alike; /* bytes of each if all have the same size and are dense; else 0 */
	int attribute[CU_FUNC_ATTRIBUTE_MAX];
	bool clusters; /* it is launched in clusters, as an attribute says */
	unsigned proofs; /* how often one was remembered */
	uint64_t proven[PROVEN]; /* see launch_doubtful; 0 for none */
	const char *name;
	struct parameter parameter[]; /* the name follows */
};

struct function {
	struct handle handle;
	bool kernel;
	uint64_t number;
	uint64_t of; /* the kernel whose function this is; 0 for none */
	uint64_t functions[KNOWN_FUNCTIONS]; /* of a kernel: those that were asked for last; or 0 */
	unsigned asked; /* how often one was remembered */
	struct description *description; /* NULL until it is needed */
	unsigned changes; /* how often an attribute was set */
	struct old_launch *old_launch; /* of old_launch.c; NULL until it is needed */
};

/* No record that the device sends of a function or a node is longer, in bytes. */
#define RECORD_MAX (1u << 20)

/*
 * Enters a function of a context, or a kernel, which has none (NULL); one that is known stays as it
 * is.
 */
CUresult function_add(uint64_t number, struct context *context, uint64_t parent);

/* A function, or a kernel passed as one; NULL if it is neither. */
struct function *function_find(const void *handle);

/* A kernel; NULL if it is none. */
struct function *kernel_find(const void *handle);

/* Its description, fetched on first use. */
CUresult function_describe(struct function *f, struct description **d);

/* Makes a description from what the worker sent. */
CUresult description_parse(const void *record, size_t bytes, struct description **d);

/* Enters a function of a known module. It is of the module's context, whichever is current. */
CUresult module_function_add(uint64_t number, CUmodule module);

/* Function number `index` of a module, or NULL. */
CUfunction module_function(CUmodule module, unsigned index);

#endif
