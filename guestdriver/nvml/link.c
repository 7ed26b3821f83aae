/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU's PCI Express link: the host's, which payloads cross, not the virtio device's. Its
 * generation and width at the moment are those when this library was initialised.
 */
#include "nvml.h"

static enum nvml tell(unsigned value, unsigned *out)
{
	if (!value)
		return NVML_NOT_SUPPORTED;
	*out = value;
	return NVML_SUCCESS;
}

#define LINK(name, value)                                        \
	EXPORT enum nvml name(const void *handle, unsigned *out) \
	{                                                        \
		FIND(g, handle, out);                            \
		return tell(value, out);                         \
	}

LINK(nvmlDeviceGetCurrPcieLinkGeneration, g->link.generation)
LINK(nvmlDeviceGetCurrPcieLinkWidth, g->link.width)
LINK(nvmlDeviceGetMaxPcieLinkGeneration, g->link.max_generation)
LINK(nvmlDeviceGetMaxPcieLinkWidth, g->link.max_width)
LINK(nvmlDeviceGetGpuMaxPcieLinkGeneration, g->link.own_generation)

/* nvmlPcieLinkMaxSpeed numbers the speeds as generations are. */
LINK(nvmlDeviceGetPcieLinkMaxSpeed, g->link.max_generation)

/*
 * In MT/s: doubled by each generation from the third on, which changed the line code.
 */
static unsigned speed(unsigned generation)
{
	if (generation < 3)
		return generation * 2500;
	return generation < 32 ? 1000u << generation : 0;
}

LINK(nvmlDeviceGetPcieSpeed, speed(g->link.generation))

/* nvmlBusType_t: 2 is PCI Express. */
LINK(nvmlDeviceGetBusType, g->link.generation ? 2 : 0)
