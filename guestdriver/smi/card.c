/* SPDX-License-Identifier: Apache-2.0 */
/* Asks NVML for the VM's GPUs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "smi.h"

static unsigned number(enum nvml (*ask)(const void *, unsigned *), const void *handle)
{
	unsigned n = 0;

	return ask && !ask(handle, &n) ? n : 0;
}

static void ask_processes(const struct library *l, const void *handle, struct card *c)
{
	unsigned n = PROCESSES_MAX;

	if (!l->processes || l->processes(handle, &n, c->process))
		return; /* also where there are more than that: fewer would be wrong */
	c->processes = n < PROCESSES_MAX ? n : PROCESSES_MAX;
}

/* What changes, and what may not be known. */
static void ask_more(const struct library *l, const void *handle, struct card *c)
{
	c->memory_known = !l->memory(handle, &c->memory);
	c->utilization_known = l->utilization && !l->utilization(handle, &c->utilization);
	c->capability_known = l->capability && !l->capability(handle, &c->major, &c->minor);
	c->persistent = number(l->persistence, handle);
	c->gen = number(l->gen, handle);
	c->gen_max = number(l->gen_max, handle);
	c->width = number(l->width, handle);
	c->width_max = number(l->width_max, handle);
	ask_processes(l, handle, c);
}

/* Asks for a GPU's name and place. Returns 0 or -1. */
static int identify(const struct library *l, unsigned index, void **handle, struct card *c)
{
	c->index = index;
	if (l->by_index(index, handle) || l->name(*handle, c->name, sizeof(c->name)) ||
	    l->uuid(*handle, c->uuid, sizeof(c->uuid)) || l->pci(*handle, &c->pci))
		return -1;
	c->pci.id[sizeof(c->pci.id) - 1] = 0;
	return 0;
}

/* Whether a text is a GPU's index, its UUID or its place on the bus. */
static bool meant(const struct card *c, const char *only)
{
	char *end;
	unsigned long index = strtoul(only, &end, 10);

	if (!*only)
		return true;
	if (end != only && !*end)
		return index == c->index;
	return !strcasecmp(only, c->uuid) || !strcasecmp(only, c->pci.id);
}

int machine_look(const struct library *l, const char *only, struct machine *m)
{
	unsigned n = 0;
	void *handle;

	memset(m, 0, sizeof(*m));
	if (l->driver(m->driver, sizeof(m->driver)) || l->cuda(&m->cuda) || l->count(&n) ||
	    n > GPUS_MAX) {
		fprintf(stderr, "nvidia-smi: NVML doesn't answer: paracuda-doctor\n");
		return EXIT_NO_DRIVER;
	}
	m->cards = calloc(n + 1, sizeof(*m->cards));
	if (!m->cards) {
		fprintf(stderr, "nvidia-smi: no memory\n");
		return EXIT_NO_DRIVER;
	}
	for (unsigned i = 0; i < n; i++) {
		struct card *c = &m->cards[m->count];

		memset(c, 0, sizeof(*c));
		if (identify(l, i, &handle, c)) {
			fprintf(stderr, "nvidia-smi: GPU %u doesn't answer: paracuda-doctor\n", i);
			return EXIT_NO_DRIVER;
		}
		if (!meant(c, only))
			continue;
		ask_more(l, handle, c);
		m->count++;
	}
	if (m->count)
		return 0;
	printf("No devices were found\n");
	return EXIT_NOT_FOUND;
}
