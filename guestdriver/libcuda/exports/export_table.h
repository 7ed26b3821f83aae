/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of functions that CUDA's own libraries ask for by UUID (cuGetExportTable). */
#ifndef PARACUDA_EXPORT_TABLE_H
#define PARACUDA_EXPORT_TABLE_H

#include <stdint.h>

enum export_table {
	EXPORT_TABLE_CUDART,
	EXPORT_TABLE_CALLBACKS,
	EXPORT_TABLE_TLS,
	EXPORT_TABLE_STORAGE,
	EXPORT_TABLE_INTEGRITY,
	EXPORT_TABLE_CONTEXT_CHECKS,
	EXPORT_TABLE_IDENTITY,
	EXPORT_TABLE_HEAP,
	EXPORT_TABLE_CONTEXT_BYPASS,
	EXPORT_TABLE_DEVICE,
	EXPORT_TABLE_FUNCTIONS,
	EXPORT_TABLE_CLUSTERS,
	EXPORT_TABLE_OWN,
	EXPORT_TABLES,
};

/* A word of a table: its size in bytes, or a function. */
typedef uintptr_t export_word;

/* Tables of the mathematical libraries (export_math.c). */
extern const export_word export_identity[95], export_functions[99], export_clusters[17];

#endif
