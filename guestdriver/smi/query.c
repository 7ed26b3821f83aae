/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of comma-separated values, and the list of GPUs. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "smi.h"

enum { MOST_COLUMNS = 64 };

/* Takes the next name of a list; NULL at its end. */
static char *next(char **list)
{
	char *name;

	while ((name = strsep(list, ",")) && !*name)
		;
	return name;
}

static int unknown(const char *name)
{
	printf("Field \"%s\" is not a valid field to query.\n\n", name);
	return EXIT_USAGE;
}

static void print_title(bool first, const char *name, const char *unit)
{
	printf("%s%s", first ? "" : ", ", name);
	if (unit)
		printf(" [%s]", unit);
}

static void print_value(bool first, const char *value, const char *unit)
{
	printf("%s%s", first ? "" : ", ", value ? value : "[N/A]");
	if (value && unit)
		printf(" %s", unit);
}

/* Finds the fields of a list. Returns how many, or -1, and has said which one is unknown. */
static int find_fields(const char *names, const struct field **to)
{
	char *copy = strdup(names), *rest = copy, *name;
	int n = 0;

	while (copy && n >= 0 && (name = next(&rest))) {
		to[n] = n < MOST_COLUMNS ? field_find(name) : NULL;
		n = to[n] ? n + 1 : -unknown(name);
	}
	free(copy);
	return n > 0 ? n : -1;
}

static void print_field(bool first, const struct field *f, const struct machine *m,
			const struct card *c, bool units)
{
	char value[TEXT_MAX];
	bool known = f->value && f->value(m, c, value);

	if (known)
		print_value(first, value, units ? f->unit : NULL);
	else
		print_value(first, f->unknown, NULL);
}

int query_gpus(const struct machine *m, const char *names, struct csv how)
{
	const struct field *fields[MOST_COLUMNS + 1];
	int n = find_fields(names, fields);

	if (n < 0)
		return EXIT_USAGE;
	for (int i = 0; how.header && i < n; i++)
		print_title(!i, fields[i]->name, fields[i]->unit);
	if (how.header)
		putchar('\n');
	for (unsigned c = 0; c < m->count; c++) {
		for (int i = 0; i < n; i++)
			print_field(!i, fields[i], m, &m->cards[c], how.units);
		putchar('\n');
	}
	return 0;
}

/* What can be asked of a process. */
enum column { TIMESTAMP, GPU_NAME, GPU_BUS_ID, GPU_UUID, PID, PROCESS_NAME, USED_MEMORY, COLUMNS };

static const struct {
	const char *name, *other_name, *unit;
} columns[COLUMNS] = {
	[TIMESTAMP] = { "timestamp", NULL, NULL },
	[GPU_NAME] = { "gpu_name", NULL, NULL },
	[GPU_BUS_ID] = { "gpu_bus_id", NULL, NULL },
	[GPU_UUID] = { "gpu_uuid", NULL, NULL },
	[PID] = { "pid", NULL, NULL },
	[PROCESS_NAME] = { "process_name", "name", NULL },
	[USED_MEMORY] = { "used_gpu_memory", "used_memory", "MiB" },
};

static enum column find_column(const char *name)
{
	enum column c;

	for (c = 0; c < COLUMNS; c++)
		if (!strcmp(name, columns[c].name) ||
		    (columns[c].other_name && !strcmp(name, columns[c].other_name)))
			break;
	return c;
}

static int find_columns(const char *names, enum column *to)
{
	char *copy = strdup(names), *rest = copy, *name;
	int n = 0;

	while (copy && n >= 0 && (name = next(&rest))) {
		to[n] = n < MOST_COLUMNS ? find_column(name) : COLUMNS;
		n = to[n] < COLUMNS ? n + 1 : -unknown(name);
	}
	free(copy);
	return n > 0 ? n : -1;
}

/* Writes a process's value for a column. Returns whether it is known. */
static bool column_text(const struct library *l, const struct card *c, const struct process *p,
			enum column column, char *to)
{
	switch (column) {
	case TIMESTAMP:
		time_text(to, TEXT_MAX);
		return true;
	case GPU_NAME:
		snprintf(to, TEXT_MAX, "%s", c->name);
		return true;
	case GPU_BUS_ID:
		snprintf(to, TEXT_MAX, "%s", c->pci.id);
		return true;
	case GPU_UUID:
		snprintf(to, TEXT_MAX, "%s", c->uuid);
		return true;
	case PID:
		snprintf(to, TEXT_MAX, "%u", p->pid);
		return true;
	case PROCESS_NAME:
		return l->process_name && !l->process_name(p->pid, to, TEXT_MAX);
	default:
		snprintf(to, TEXT_MAX, "%llu", (unsigned long long)p->memory >> 20);
		return p->memory != NOT_AVAILABLE;
	}
}

static void print_process(const struct library *l, const struct card *c, const struct process *p,
			  const enum column *list, int n, bool units)
{
	char value[TEXT_MAX];

	for (int i = 0; i < n; i++) {
		bool known = column_text(l, c, p, list[i], value);

		print_value(!i, known ? value : NULL, units ? columns[list[i]].unit : NULL);
	}
	putchar('\n');
}

int query_processes(const struct library *l, const struct machine *m, const char *names,
		    struct csv how)
{
	enum column list[MOST_COLUMNS + 1];
	int n = find_columns(names, list);

	if (n < 0)
		return EXIT_USAGE;
	for (int i = 0; how.header && i < n; i++)
		print_title(!i, columns[list[i]].name, columns[list[i]].unit);
	if (how.header)
		putchar('\n');
	for (unsigned g = 0; g < m->count; g++)
		for (unsigned p = 0; p < m->cards[g].processes; p++)
			print_process(l, &m->cards[g], &m->cards[g].process[p], list, n, how.units);
	return 0;
}

int list_gpus(const struct machine *m)
{
	for (unsigned i = 0; i < m->count; i++)
		printf("GPU %u: %s (UUID: %s)\n", m->cards[i].index, m->cards[i].name,
		       m->cards[i].uuid);
	return 0;
}
