/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "code/function.h"

#include <stdlib.h>
#include <string.h>

#include "base/zz_generated_prototypes.h"
#include "context/zz_generated_calls.h"
#include "devices/device.h"

_Static_assert(sizeof(struct paracuda_function_record) == PARACUDA_SIZEOF_FUNCTION_RECORD,
	       "function record");

static void release(struct handle *h)
{
	struct function *f = (struct function *)h;

	free(f->description);
	free(f->old_launch);
	free(f);
}

CUresult function_add(uint64_t number, struct context *context, uint64_t parent)
{
	enum handle_kind kind = context ? HANDLE_FUNC : HANDLE_KERNEL;
	struct function *f;

	if (handle_known(kind, (void *)(uintptr_t)number))
		return CUDA_SUCCESS;
	f = (struct function *)handle_new(sizeof(*f), parent);
	if (f) {
		f->handle.release = release;
		f->handle.context = context;
		f->kernel = !context;
		f->number = number;
	}
	return handle_enter(kind, number, f ? &f->handle : NULL);
}

struct function *kernel_find(const void *handle)
{
	return (struct function *)handle_find(HANDLE_KERNEL, handle);
}

struct function *function_find(const void *handle)
{
	struct handle *h = handle_find(HANDLE_FUNC, handle);

	return h ? (struct function *)h : kernel_find(handle);
}

/* Whether the parameters follow one another without a gap. */
static bool is_dense(const struct description *d)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < d->parameters; i++) {
		if (d->parameter[i].offset != end)
			return false;
		end += d->parameter[i].bytes;
	}
	return end == d->parameter_bytes;
}

/* How many bytes each parameter has; 0 unless all have the same size. */
static unsigned common_size(const struct description *d)
{
	unsigned bytes = d->parameters ? d->parameter[0].bytes : 0;

	for (unsigned i = 1; i < d->parameters; i++)
		if (d->parameter[i].bytes != bytes)
			return 0;
	return bytes;
}

/*
 * Notes what attributes say of launches: from now on, launches may be refused that were accepted
 * before.
 */
static void note_launches(struct description *d)
{
	bool clusters = false;

	for (int a = CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET;
	     a < CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + 3; a++)
		clusters |= __atomic_load_n(&d->attribute[a], __ATOMIC_RELAXED) != 0;
	__atomic_store_n(&d->clusters, clusters, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < PROVEN; i++)
		__atomic_store_n(&d->proven[i], 0, __ATOMIC_RELAXED);
}

CUresult description_parse(const void *record, size_t bytes, struct description **out)
{
	struct paracuda_function_record r;
	struct description *d;
	const uint8_t *at = (const uint8_t *)record + sizeof(r);
	char *name;

	if (bytes < sizeof(r))
		return CUDA_ERROR_UNKNOWN;
	memcpy(&r, record, sizeof(r));
	bytes -= sizeof(r);
	if (r.parameter_bytes > CUDA_MAX_PARAMETER_BYTES || r.parameters > bytes / 8 ||
	    r.name_bytes > bytes - (size_t)r.parameters * 8)
		return CUDA_ERROR_UNKNOWN;
	d = malloc(sizeof(*d) + r.parameters * sizeof(struct parameter) + r.name_bytes + 1);
	if (!d)
		return CUDA_ERROR_OUT_OF_MEMORY;
	d->parameters = r.parameters;
	d->parameter_bytes = r.parameter_bytes;
	d->proofs = 0;
	memcpy(d->attribute, r.attribute, sizeof(d->attribute));
	note_launches(d);
	memcpy(d->parameter, at, r.parameters * sizeof(struct parameter));
	for (unsigned i = 0; i < d->parameters; i++) {
		const struct parameter *p = &d->parameter[i];

		if (p->bytes > r.parameter_bytes || p->offset > r.parameter_bytes - p->bytes) {
			free(d);
			return CUDA_ERROR_UNKNOWN;
		}
	}
	d->dense = is_dense(d);
	d->alike = d->dense ? common_size(d) : 0;
	name = (char *)&d->parameter[r.parameters];
	memcpy(name, at + (size_t)r.parameters * 8, r.name_bytes);
	name[r.name_bytes] = 0;
	d->name = name;
	*out = d;
	return CUDA_SUCCESS;
}

static CUresult fetch(struct function *f, struct description **d)
{
	size_t room = 8192;

	for (;;) {
		void *record = malloc(room);
		uint64_t bytes = 0;
		CUresult result;

		if (!record)
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = f->kernel ? call_KernelDescribe(f->number, record, room, &bytes) :
				     call_FuncDescribe(f->number, record, room, &bytes);
		if (!result && bytes <= room) {
			result = description_parse(record, bytes, d);
			free(record);
			return result;
		}
		free(record);
		/* A record that didn't fit says how large it is. */
		if (bytes <= room || bytes > RECORD_MAX)
			return result ? result : CUDA_ERROR_UNKNOWN;
		room = bytes;
	}
}

/* Enters what was fetched: as the description, if there is none, else its attributes. */
static struct description *enter(struct function *f, struct description *fresh)
{
	struct description *d = NULL;

	if (__atomic_compare_exchange_n(&f->description, &d, fresh, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		return fresh;
	for (unsigned i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
		__atomic_store_n(&d->attribute[i], fresh->attribute[i], __ATOMIC_RELAXED);
	note_launches(d);
	free(fresh);
	return d;
}

/*
 * Another thread may set an attribute meanwhile, and the worker describe the function before that:
 * then it is described again. Who sets one counts first and looks for a description then.
 */
CUresult function_describe(struct function *f, struct description **d)
{
	struct description *fresh;
	unsigned changes;
	CUresult result;

	*d = __atomic_load_n(&f->description, __ATOMIC_ACQUIRE);
	if (*d)
		return CUDA_SUCCESS;
	do {
		changes = __atomic_load_n(&f->changes, __ATOMIC_SEQ_CST);
		result = fetch(f, &fresh);
		if (result)
			return result;
		*d = enter(f, fresh);
	} while (__atomic_load_n(&f->changes, __ATOMIC_SEQ_CST) != changes);
	return CUDA_SUCCESS;
}

static CUresult attribute(int *pi, int attrib, struct function *f)
{
	struct description *d;
	CUresult result;

	if (!pi || attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_describe(f, &d);
	if (!result)
		*pi = __atomic_load_n(&d->attribute[attrib], __ATOMIC_RELAXED);
	return result;
}

static void note_attribute(struct function *f, int attrib, int value)
{
	struct description *d;

	__atomic_fetch_add(&f->changes, 1, __ATOMIC_SEQ_CST);
	d = __atomic_load_n(&f->description, __ATOMIC_SEQ_CST);
	if (!d || attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return;
	__atomic_store_n(&d->attribute[attrib], value, __ATOMIC_RELAXED);
	note_launches(d);
}

EXPORT CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	ENTER_CONTEXT();
	return attribute(pi, attrib, function_find(hfunc));
}

EXPORT CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
				     CUdevice dev)
{
	ENTER();
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	return attribute(pi, attrib, kernel_find(kernel));
}

EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct function *f;
	CUresult result;

	ENTER_CONTEXT();
	f = function_find(hfunc);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (f->kernel)
		return cuKernelSetAttribute(attrib, value, (CUkernel)hfunc,
					    context_current()->device);
	result = call_cuFuncSetAttribute(f->number, (uint64_t)attrib, (uint64_t)value);
	if (!result)
		note_attribute(f, attrib, value);
	return result;
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
				     CUdevice dev)
{
	struct function *f;
	CUresult result;

	ENTER();
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	f = kernel_find(kernel);
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = call_cuKernelSetAttribute((uint64_t)attrib, (uint64_t)val, f->number,
					   device_host(dev));
	if (!result)
		note_attribute(f, attrib, val);
	return result;
}

static CUresult param_info(struct function *f, size_t index, size_t *offset, size_t *size)
{
	struct description *d;
	CUresult result;

	if (!offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_describe(f, &d);
	if (result)
		return result;
	if (index >= d->parameters)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = d->parameter[index].offset;
	if (size)
		*size = d->parameter[index].bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
				   size_t *paramSize)
{
	ENTER();
	return param_info(function_find(func), paramIndex, paramOffset, paramSize);
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
				     size_t *paramSize)
{
	ENTER();
	return param_info(kernel_find(kernel), paramIndex, paramOffset, paramSize);
}

static CUresult name_of(const char **name, struct function *f)
{
	struct description *d;
	CUresult result;

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	result = function_describe(f, &d);
	if (!result)
		*name = d->name;
	return result;
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
	ENTER();
	return name_of(name, function_find(hfunc));
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
	ENTER();
	return name_of(name, kernel_find(hfunc));
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct function *f;

	ENTER();
	f = kernel_find(kernel);
	if (!pLib)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)(uintptr_t)f->handle.parent;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	ENTER();
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function_find(function))
		return CUDA_ERROR_INVALID_HANDLE;
	*state = 1;
	return CUDA_SUCCESS;
}

/* Describing a function loads it. */
EXPORT CUresult cuFuncLoad(CUfunction function)
{
	struct description *d;
	struct function *f;

	ENTER_CONTEXT();
	f = function_find(function);
	return f ? function_describe(f, &d) : CUDA_ERROR_INVALID_HANDLE;
}
