/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "code/loaded.h"

#include "context/zz_generated_calls.h"
#include "managed/managed.h"

struct used {
	uint64_t info, error; /* bytes of the logs */
};

static CUresult load(enum handle_kind kind, const struct image *i, struct jit *j, uint64_t *number,
		     struct used *used)
{
	const void *pairs = j->pairs ? j->pair : NULL;

	if (kind == HANDLE_MODULE)
		return call_cuModuleLoadData(number, i->data, i->bytes, pairs, j->pairs * 16,
					     j->info, j->info_bytes, j->error, j->error_bytes,
					     &used->info, &used->error);
	return call_cuLibraryLoadData(number, i->data, i->bytes, pairs, j->pairs * 16, j->info,
				      j->info_bytes, j->error, j->error_bytes, &used->info,
				      &used->error);
}

static CUresult load_managed(enum handle_kind kind, const struct image *i, struct jit *j,
			     uint64_t managed, uint64_t *number, struct used *used)
{
	const void *pairs = j->pairs ? j->pair : NULL;

	if (kind == HANDLE_MODULE)
		return call_ModuleLoadManaged(number, i->data, i->bytes, pairs, j->pairs * 16,
					      managed, j->info, j->info_bytes, j->error,
					      j->error_bytes, &used->info, &used->error);
	return call_LibraryLoadManaged(number, i->data, i->bytes, pairs, j->pairs * 16, managed,
				       j->info, j->info_bytes, j->error, j->error_bytes,
				       &used->info, &used->error);
}

/*
 * Loads an image with managed variables. They get memory of this process first; the image is then
 * linked to its address.
 */
static CUresult load_with_memory(enum handle_kind kind, const struct image *i, struct jit *j,
				 uint64_t *managed, uint64_t *number, struct used *used)
{
	uint64_t bytes;
	CUresult result = call_ManagedBytes(i->data, i->bytes, &bytes);

	/* A library belongs to no context. */
	if (!result)
		result = managed_variables_make(
			bytes, kind == HANDLE_MODULE ? context_owner() : NULL, managed);
	if (result)
		return result;
	result = load_managed(kind, i, j, *managed, number, used);
	if (result) {
		managed_variables_end(*managed);
		*managed = 0;
	}
	return result;
}

CUresult loaded_make(enum handle_kind kind, struct image *image, struct jit *j, uint64_t *number)
{
	struct used used = { 0, 0 };
	uint64_t managed = 0;
	CUresult result = load(kind, image, j, number, &used);

	if (result == CUDA_ERROR_NOT_READY)
		result = load_with_memory(kind, image, j, &managed, number, &used);
	jit_finish(j, used.info, used.error);
	image_free(image);
	if (!result) {
		result = loaded_enter(kind, *number, managed, 0);
		if (result)
			managed_variables_end(managed);
	}
	return result;
}

CUresult loaded_enter(enum handle_kind kind, uint64_t number, uint64_t managed, uint64_t library)
{
	struct loaded *l = (struct loaded *)handle_new(sizeof(*l), library);

	if (l) {
		l->managed = managed;
		if (kind == HANDLE_LIB)
			l->handle.context = NULL;
	}
	return handle_enter(kind, number, l ? &l->handle : NULL);
}

uint64_t loaded_managed(enum handle_kind kind, const void *number)
{
	struct loaded *l = (struct loaded *)handle_find(kind, number);

	return l ? l->managed : 0;
}

uint64_t loaded_root(CUmodule module)
{
	struct handle *h = handle_find(HANDLE_MODULE, module);

	return h && h->parent ? h->parent : number_of(module);
}
