/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions that nvidia-smi asks for beyond the public ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvml.h"

#define TABLE_BYTES 0x948
#define WORDS (TABLE_BYTES / sizeof(uintptr_t))

static const uint8_t table_id[16] = { 0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
				      0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4 };

/* Any function whose meaning isn't known. It writes nothing, since parameters differ. */
static enum nvml unsupported(void)
{
	return NVML_NOT_SUPPORTED;
}

/* One of the processes that use a GPU, as nvidia-smi 535 and 550 want them. */
struct smi_process {
	struct process process;
	uint64_t protected_memory;
	char name[4096];
};

_Static_assert(sizeof(struct smi_process) == 4128, "nvidia-smi's record of a process");

static enum nvml processes(const void *handle, unsigned *count, struct smi_process *infos)
{
	unsigned room = count ? *count : 0;
	enum nvml result = gpu_processes(handle, count, infos, sizeof(*infos));

	for (unsigned i = 0; infos && !result && i < *count && i < room; i++) {
		infos[i].protected_memory = NOT_AVAILABLE;
		if (nvmlSystemGetProcessName(infos[i].process.pid, infos[i].name,
					     sizeof(infos[i].name)))
			infos[i].name[0] = 0;
	}
	return result;
}

static enum nvml no_processes(const void *handle, unsigned *count)
{
	FIND(g, handle, count);
	(void)g;
	*count = 0;
	return NVML_SUCCESS;
}

/* How near two GPUs are on PCI Express, as nvmlDeviceGetTopologyCommonAncestor says: SYS. */
static enum nvml nearness(const char *first, const char *second, unsigned *level)
{
	enum { SYS = 4 };

	if (!first || !second || !level)
		return NVML_INVALID_ARGUMENT;
	*level = SYS;
	return NVML_SUCCESS;
}

static enum nvml by_index(unsigned index, void **handle)
{
	if (!handle || !gpu_at(index))
		return NVML_INVALID_ARGUMENT;
	*handle = gpu_at(index);
	return NVML_SUCCESS;
}

/* The entries whose meaning is known. Without the first nvidia-smi finds no GPU. */
enum {
	ENTRY_NEARNESS = 23,
	ENTRY_HANDLE = 81,
	ENTRY_COMPUTE_PROCESSES = 213,
	ENTRY_GRAPHICS_PROCESSES = 214,
	ENTRY_MPS_PROCESSES = 215,
};

/* Names a missing table, as libcuda does: only if PARACUDA_LOG says so. */
static void say_unknown(const uint8_t *id)
{
	const char *log = getenv("PARACUDA_LOG");

	if (!log || strcmp(log, "stderr"))
		return;
	fputs("paracuda: no NVML export table ", stderr);
	for (size_t i = 0; i < sizeof(table_id); i++)
		fprintf(stderr, "%02x", id[i]);
	fputc('\n', stderr);
}

EXPORT enum nvml nvmlInternalGetExportTable(const void **table, const void *id)
{
	static uintptr_t words[WORDS];

	if (!table || !id)
		return NVML_INVALID_ARGUMENT;
	if (memcmp(id, table_id, sizeof(table_id))) {
		say_unknown(id);
		return NVML_NOT_FOUND;
	}
	for (unsigned i = 1; i < WORDS; i++)
		words[i] = (uintptr_t)unsupported;
	words[ENTRY_NEARNESS] = (uintptr_t)nearness;
	words[ENTRY_HANDLE] = (uintptr_t)by_index;
	words[ENTRY_COMPUTE_PROCESSES] = (uintptr_t)processes;
	words[ENTRY_GRAPHICS_PROCESSES] = (uintptr_t)no_processes;
	words[ENTRY_MPS_PROCESSES] = (uintptr_t)no_processes;
	words[0] = TABLE_BYTES;
	*table = words;
	return NVML_SUCCESS;
}
