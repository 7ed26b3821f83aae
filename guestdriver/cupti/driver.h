/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's libcuda.so.1 as this library uses it. */
#ifndef PARACUDA_CUPTI_DRIVER_H
#define PARACUDA_CUPTI_DRIVER_H

#include "paracuda_table.h"
#include "zz_generated_cuda_values.h"

struct driver {
	int (*table)(const void **table, const void *id);
	int (*event_create)(void **event, unsigned flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event);
	int (*event_synchronize)(void *event);
	int (*event_elapsed)(float *milliseconds, void *start, void *end);
	int (*event_destroy)(void *event);
	int (*stream_create)(void **stream, unsigned flags);
	int (*stream_id)(void *stream, unsigned long long *id);
	int (*context)(void **context);
	int (*context_push)(void *context);
	int (*context_pop)(void **context);
	int (*device)(int *device);
	int (*capture_mode)(int *mode);
	int (*function_name)(const char **name, void *function);
	int (*function_attribute)(int *value, int attribute, void *function);
	const struct paracuda_table *own;
};

/* The library, or NULL if there is none, or only one that isn't Paracuda's. */
const struct driver *driver(void);

#endif
