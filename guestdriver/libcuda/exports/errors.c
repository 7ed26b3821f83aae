/* SPDX-License-Identifier: Apache-2.0 */
#include "exports/errors.h"

#include "base/zz_generated_prototypes.h"

static const struct error_text *find(CUresult error)
{
	unsigned low = 0, high = error_texts_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (error_texts[middle].number < error)
			low = middle + 1;
		else
			high = middle;
	}
	return low < error_texts_count && error_texts[low].number == error ? &error_texts[low] : 0;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	const struct error_text *e = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = e ? e->text : 0;
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	const struct error_text *e = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = e ? e->name : 0;
	return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
