/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 64-bit keys (not 0) to pointers. Readers take no lock. What a value points to must
 * stay for as long as a reader may use it: callers free it only where CUDA forbids programs to use
 * the key from then on.
 */
#ifndef PARACUDA_TABLE_H
#define PARACUDA_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct table_rows;

struct table {
	pthread_mutex_t lock;
	struct table_rows *rows;
};

#define TABLE_INIT                           \
	{                                    \
		PTHREAD_MUTEX_INITIALIZER, 0 \
	}

/* The value of key, or NULL. */
void *table_find(struct table *t, uint64_t key);

/* Sets the value of key; false when there is no memory. */
bool table_put(struct table *t, uint64_t key, void *value);

/* Removes key and returns what it had. */
void *table_take(struct table *t, uint64_t key);

/* Removes the values for which `match` says so and hands each to `release`. */
void table_purge(struct table *t, bool (*match)(void *value, void *arg), void *arg,
		 void (*release)(void *value));

#endif
