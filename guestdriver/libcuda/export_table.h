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
	EXPORT_TABLES,
};

/* Where a table is: the runtime's integrity check contains the addresses. */
uint64_t export_table_address(enum export_table which);

#endif
