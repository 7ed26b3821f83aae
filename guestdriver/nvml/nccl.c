/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's topology file, which it reads in a VM instead of /sys. It finds processors, and how fast
 * links are, by itself.
 */
#include <stdio.h>

#include "gpu.h"

enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };

static const char *const speeds[] = { "",	   "2.5 GT/s",	"5.0 GT/s",  "8.0 GT/s",
				      "16.0 GT/s", "32.0 GT/s", "64.0 GT/s", "128.0 GT/s" };

#define SPEEDS (sizeof(speeds) / sizeof(speeds[0]))

/* Whether two links lead to the same device. */
static int same(const struct paracuda_nvlink *a, const struct paracuda_nvlink *b)
{
	return b->version && a->remote == b->remote && a->domain == b->domain && a->bus == b->bus &&
	       a->device == b->device;
}

/* The links that lead where link n does, if none before it leads there. */
static unsigned alike(const struct paracuda_nvlinks *links, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < links->count && i < PARACUDA_NVLINKS_MAX; i++) {
		if (!same(&links->link[n], &links->link[i]))
			continue;
		if (i < n)
			return 0;
		count++;
	}
	return count;
}

static void nvlinks(FILE *to, const struct paracuda_nvlinks *links)
{
	for (unsigned i = 0; i < links->count && i < PARACUDA_NVLINKS_MAX; i++) {
		const struct paracuda_nvlink *l = &links->link[i];
		unsigned count = l->version ? alike(links, i) : 0;

		if (!count || (l->remote != REMOTE_GPU && l->remote != REMOTE_SWITCH))
			continue;
		fprintf(to,
			"        <nvlink target=\"%04x:%02x:%02x.0\" count=\"%u\" "
			"tclass=\"%s\"/>\n",
			l->domain, l->bus, l->device, count,
			l->remote == REMOTE_GPU ? "0x030200" : "0x068000");
	}
}

static void one(FILE *to, const struct gpu *g)
{
	fprintf(to, "    <pci busid=\"%04x:%02x:%02x.0\" class=\"0x030200\"", (unsigned)g->domain,
		(unsigned)g->bus, (unsigned)g->device);
	if (g->link.max_generation && g->link.max_generation < SPEEDS && g->link.max_width)
		fprintf(to, " link_speed=\"%s PCIe\" link_width=\"%u\"",
			speeds[g->link.max_generation], g->link.max_width);
	fputs(">\n      <gpu>\n", to);
	nvlinks(to, &g->nvlinks);
	fputs("      </gpu>\n    </pci>\n", to);
}

void nccl_topology(FILE *to, const struct gpu *gpus, int n)
{
	fputs("<system version=\"1\">\n  <cpu numaid=\"0\">\n", to);
	for (int i = 0; i < n; i++)
		one(to, &gpus[i]);
	fputs("  </cpu>\n</system>\n", to);
}
