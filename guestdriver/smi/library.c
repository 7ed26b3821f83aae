/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's functions, found at run time: if there is no library, a line says so. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "smi.h"

/* A function's name, and where its address goes. */
struct symbol {
	const char *name;
	void *to;
};

static int complain(int code, const char *text)
{
	fprintf(stderr, "nvidia-smi: %s\n", text);
	return code;
}

static void find(void *library, const struct symbol *s)
{
	void *address = dlsym(library, s->name);

	memcpy(s->to, &address, sizeof(address));
}

static void find_all(struct library *l, void *library)
{
	const struct symbol symbols[] = {
		{ "nvmlInit_v2", &l->init },
		{ "nvmlDeviceGetCount_v2", &l->count },
		{ "nvmlDeviceGetHandleByIndex_v2", &l->by_index },
		{ "nvmlDeviceGetName", &l->name },
		{ "nvmlDeviceGetUUID", &l->uuid },
		{ "nvmlDeviceGetPciInfo_v3", &l->pci },
		{ "nvmlDeviceGetMemoryInfo", &l->memory },
		{ "nvmlDeviceGetUtilizationRates", &l->utilization },
		{ "nvmlDeviceGetCudaComputeCapability", &l->capability },
		{ "nvmlDeviceGetPersistenceMode", &l->persistence },
		{ "nvmlDeviceGetCurrPcieLinkGeneration", &l->gen },
		{ "nvmlDeviceGetMaxPcieLinkGeneration", &l->gen_max },
		{ "nvmlDeviceGetCurrPcieLinkWidth", &l->width },
		{ "nvmlDeviceGetMaxPcieLinkWidth", &l->width_max },
		{ "nvmlDeviceGetComputeRunningProcesses_v3", &l->processes },
		{ "nvmlSystemGetProcessName", &l->process_name },
		{ "nvmlSystemGetDriverVersion", &l->driver },
		{ "nvmlSystemGetCudaDriverVersion_v2", &l->cuda },
	};

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		find(library, &symbols[i]);
}

/* Whether it has all that the table needs. */
static bool complete(const struct library *l)
{
	return l->init && l->count && l->by_index && l->name && l->uuid && l->pci && l->memory &&
	       l->driver && l->cuda;
}

int library_open(struct library *l)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	if (!library)
		return complain(EXIT_NO_LIBRARY, "no libnvidia-ml.so.1: paracuda-doctor library");
	find_all(l, library);
	if (!complete(l))
		return complain(EXIT_NO_LIBRARY,
				"libnvidia-ml.so.1 lacks functions: paracuda-doctor library");
	if (l->init())
		return complain(EXIT_NO_DRIVER, "the driver has no GPU: paracuda-doctor");
	return 0;
}
