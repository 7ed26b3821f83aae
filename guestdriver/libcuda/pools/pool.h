/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools, which are the worker's, as this process knows them. */
#ifndef PARACUDA_POOL_H
#define PARACUDA_POOL_H

#include "context/handle.h"
#include "devices/peers.h"

struct pool {
	struct handle handle;
	int device;
	int types; /* of handles that it can be exported as */
	bool imported; /* it is another process's: nothing can be allocated from it */
	uint8_t access[DEVICES_MAX]; /* of other devices; atomic */
};

static inline struct pool *pool_find(CUmemoryPool pool)
{
	return (struct pool *)handle_find(HANDLE_POOL, pool);
}

/* Enters the worker's pool. */
CUresult pool_enter(uint64_t number, int device, int types, bool imported);

/* Enters memory of a pool. */
CUresult pool_enter_memory(uint64_t base, uint64_t bytes, int device, uint64_t pool);

#endif
