/* SPDX-License-Identifier: Apache-2.0 */
/* The table that nvidia-smi prints without options, in the form of 550 and later. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "smi.h"

#define DASHES "-----------------------------------------"
#define MIDDLE "------------------------"
#define RIGHT "----------------------"
#define WHOLE DASHES "-" MIDDLE "-" RIGHT

static void print_head(const struct machine *m)
{
	char date[64], cuda[16];
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", &tm);
	snprintf(cuda, sizeof(cuda), "%d.%d", m->cuda / 1000, m->cuda % 1000 / 10);
	printf("%s       \n+" WHOLE "+\n", date);
	printf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", m->driver,
	       m->driver, cuda);
	printf("|" DASHES "+" MIDDLE "+" RIGHT "+\n");
	printf("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | "
	       "Volatile Uncorr. ECC |\n");
	printf("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | "
	       "GPU-Util  Compute M. |\n");
	printf("|                                         |                        | "
	       "              MIG M. |\n");
	printf("|=========================================+========================+"
	       "======================|\n");
}

static void print_card(const struct card *c)
{
	char used[24] = "N/A", total[24] = "N/A", busy[16] = "N/A";

	if (c->memory_known) {
		snprintf(used, sizeof(used), "%lluMiB", (unsigned long long)c->memory.used >> 20);
		snprintf(total, sizeof(total), "%lluMiB",
			 (unsigned long long)c->memory.total >> 20);
	}
	if (c->utilization_known)
		snprintf(busy, sizeof(busy), "%u%%", c->utilization.gpu);
	printf("|%4u  %-30.30s %3s |%19s Off | %20s |\n", c->index, c->name,
	       c->persistent ? "On " : "Off", c->pci.id, "N/A");
	printf("| N/A   N/A  N/A              N/A /  N/A  |%11s / %9s | %7s %12s |\n", used, total,
	       busy, "Default");
	printf("|                                         |                        | %20s |\n",
	       "Disabled");
	printf("+" DASHES "+" MIDDLE "+" RIGHT "+\n");
}

static void print_process(const struct library *l, const struct card *c, const struct process *p)
{
	char name[TEXT_MAX] = "", memory[24] = "N/A     ";

	if (l->process_name && l->process_name(p->pid, name, sizeof(name)))
		name[0] = 0;
	if (p->memory != NOT_AVAILABLE)
		snprintf(memory, sizeof(memory), "%lluMiB", (unsigned long long)p->memory >> 20);
	printf("|%5u   N/A  N/A %9u      C   %-41.41s%11s |\n", c->index, p->pid, name, memory);
}

void print_table(const struct library *l, const struct machine *m)
{
	unsigned processes = 0;

	print_head(m);
	for (unsigned i = 0; i < m->count; i++)
		print_card(&m->cards[i]);
	printf("%*s\n", (int)strlen(WHOLE), "");
	printf("+" WHOLE "+\n");
	printf("| %-87s |\n", "Processes:");
	printf("| %-87s |\n", " GPU   GI   CI        PID   Type   Process name"
			      "                              GPU Memory");
	printf("| %-87s |\n", "       ID   ID                                "
			      "                               Usage     ");
	printf("|=================================================================="
	       "=======================|\n");
	for (unsigned i = 0; i < m->count; i++)
		for (unsigned p = 0; p < m->cards[i].processes; p++, processes++)
			print_process(l, &m->cards[i], &m->cards[i].process[p]);
	if (!processes)
		printf("| %-87s |\n", " No running processes found");
	printf("+" WHOLE "+\n");
}
