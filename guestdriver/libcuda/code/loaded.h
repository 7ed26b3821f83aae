/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries as this process knows them. */
#ifndef PARACUDA_LOADED_H
#define PARACUDA_LOADED_H

#include "code/image.h"
#include "code/jit.h"
#include "context/handle.h"

struct loaded {
	struct handle handle;
	uint64_t managed; /* memory of its managed variables, 0 for none */
};

/*
 * Sends an image to be loaded: HANDLE_MODULE or HANDLE_LIB. Frees the image, and finishes with the
 * options.
 */
CUresult loaded_make(enum handle_kind kind, struct image *image, struct jit *j, uint64_t *number);

/*
 * Enters a module or library that the worker has. `library`: the library whose module it is, else
 * 0.
 */
CUresult loaded_enter(enum handle_kind kind, uint64_t number, uint64_t managed, uint64_t library);

/*
 * What the functions and references of a module end with: its library if it has one, else the
 * module.
 */
uint64_t loaded_root(CUmodule module);

/* The memory of its managed variables, 0 for none. */
uint64_t loaded_managed(enum handle_kind kind, const void *number);

#endif
