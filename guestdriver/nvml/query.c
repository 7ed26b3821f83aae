/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as a program, which asks CUDA: the dynamic loader runs it. It writes a struct gpu for
 * each GPU to standard output. With the argument "memory" it makes contexts, to know what is free;
 * with "topology" it writes NCCL's topology file instead.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#ifndef __x86_64__
#error "the entry point is for x86-64 only"
#endif

/* As crt1.o: the C library calls query_main, and exit with its result. */
__asm__(".pushsection .text\n"
	".globl query_start\n"
	".hidden query_start\n"
	".type query_start, @function\n"
	"query_start:\n"
	"	xorl %ebp, %ebp\n"
	"	movq %rdx, %r9\n" /* what the loader has to be told at the end */
	"	popq %rsi\n"
	"	movq %rsp, %rdx\n"
	"	andq $-16, %rsp\n"
	"	pushq %rax\n"
	"	pushq %rsp\n"
	"	xorl %r8d, %r8d\n"
	"	xorl %ecx, %ecx\n"
	"	leaq query_main(%rip), %rdi\n"
	"	call *__libc_start_main@GOTPCREL(%rip)\n"
	"	hlt\n"
	".size query_start, . - query_start\n"
	".popsection\n");

typedef int CUresult;

/* The functions of CUDA that it needs. */
#define FUNCTIONS(f)                                                                              \
	f(cuInit, (unsigned flags)) f(cuDriverGetVersion, (int *version)) f(                      \
		cuDeviceGetCount, (int *count)) f(cuDeviceGetName,                                \
						  (char *name, int room, int device))             \
		f(cuDeviceGetUuid_v2, (void *uuid, int device)) f(cuDeviceTotalMem_v2,            \
								  (size_t * bytes, int device))   \
			f(cuDeviceGetAttribute, (int *value, int attribute, int device)) f(       \
				cuDevicePrimaryCtxRetain,                                         \
				(void **context, int device)) f(cuCtxSetCurrent, (void *context)) \
				f(cuMemGetInfo_v2, (size_t * free, size_t * total))               \
					f(cuGetExportTable, (const void **table, const void *id)) \
						f(cuDeviceGetP2PAttribute,                        \
						  (int *value, int attribute, int from, int to))

#define DECLARE(name, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

static int find(void *library, void *function, const char *name)
{
	void *address = dlsym(library, name);

	memcpy(function, &address, sizeof(address));
	return address ? 0 : -1;
}

/* Takes the libcuda beside this library, or else the system's. */
static int load_cuda(void)
{
	char path[GPU_PATH_MAX];
	void *library = NULL;

	if (!gpu_beside("libcuda.so.1", path, sizeof(path)))
		library = dlopen(path, RTLD_NOW);
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		return -1;
#define FIND(name, parameters)           \
	if (find(library, &name, #name)) \
		return -1;
	FUNCTIONS(FIND)
	return 0;
}

/* Device attributes of the driver API. */
enum {
	PROCESSORS = 16,
	PCI_BUS = 33,
	PCI_DEVICE = 34,
	BUS_WIDTH = 37,
	PCI_DOMAIN = 50,
	MAJOR = 75,
	MINOR = 76,
	PCI_DEVICE_NUMBER = 139,
	PCI_SUBSYSTEM_NUMBER = 140,
};

static void ask_memory(struct gpu *g, int device)
{
	size_t free, total;
	void *context;

	if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) ||
	    cuMemGetInfo_v2(&free, &total))
		return;
	g->free = free;
	g->total = total;
}

/* The table of the guest's libcuda beyond CUDA; NULL: it is another libcuda. */
static const struct paracuda_table *own_table(void)
{
	static const uint8_t id[16] = { PARACUDA_TABLE_ID };
	const struct paracuda_table *own;
	const void *table;

	if (cuGetExportTable(&table, id))
		return NULL;
	own = table;
	return own->bytes >= sizeof(*own) ? own : NULL;
}

static void ask_link(struct gpu *g, int device)
{
	const struct paracuda_table *own = own_table();

	if (!own)
		return;
	own->device_link(&g->link, device);
	own->device_nvlinks(&g->nvlinks, device);
	own->device_ways(&g->ways, device);
	own->device_fabric(&g->fabric, device);
}

/* Attributes of the way from one device to another. */
enum { P2P_ACCESS = 2, P2P_ATOMICS = 3 };

static void ask_peers(struct gpu *g, int device, int count)
{
	for (int i = 0; i < count && i < GPUS_MAX; i++) {
		int access = 0, atomics = 0;

		if (i == device)
			continue;
		if (!cuDeviceGetP2PAttribute(&access, P2P_ACCESS, device, i) && access)
			g->peer[i] |= PEER_ACCESS;
		if (!cuDeviceGetP2PAttribute(&atomics, P2P_ATOMICS, device, i) && atomics)
			g->peer[i] |= PEER_ATOMICS;
	}
}

static void ask_usage(struct gpu *g, int device)
{
	const struct paracuda_table *own = own_table();

	g->usage_known = own && !own->device_usage(&g->usage, device);
}

/* An attribute, 0 where it isn't known. */
static uint32_t number(int attribute, int device)
{
	int value = 0;

	return cuDeviceGetAttribute(&value, attribute, device) ? 0 : (uint32_t)value;
}

static void ask(struct gpu *g, int device)
{
	size_t total = 0;
	int version = 0;

	memset(g, 0, sizeof(*g));
	cuDeviceGetName(g->name, sizeof(g->name), device);
	cuDeviceGetUuid_v2(g->uuid, device);
	cuDeviceTotalMem_v2(&total, device);
	cuDriverGetVersion(&version);
	g->total = g->free = total;
	g->cuda = (uint32_t)version;
	cuDeviceGetAttribute(&g->processors, PROCESSORS, device);
	cuDeviceGetAttribute(&g->bus, PCI_BUS, device);
	cuDeviceGetAttribute(&g->device, PCI_DEVICE, device);
	cuDeviceGetAttribute(&g->domain, PCI_DOMAIN, device);
	cuDeviceGetAttribute(&g->major, MAJOR, device);
	cuDeviceGetAttribute(&g->minor, MINOR, device);
	cuDeviceGetAttribute(&g->bus_width, BUS_WIDTH, device);
	g->pci_device = number(PCI_DEVICE_NUMBER, device);
	g->pci_subsystem = number(PCI_SUBSYSTEM_NUMBER, device);
	ask_link(g, device);
}

int query_main(int argc, char **argv)
{
	static struct gpu all[GPUS_MAX];
	int count = 0;

	/* The program's choice of devices must not change the answers. */
	unsetenv("CUDA_VISIBLE_DEVICES");
	if (load_cuda() || cuInit(0) || cuDeviceGetCount(&count))
		return 1;
	count = count < GPUS_MAX ? count : GPUS_MAX;
	for (int i = 0; i < count; i++) {
		ask(&all[i], i);
		ask_peers(&all[i], i, count);
		if (argc > 1 && !strcmp(argv[1], "memory")) {
			ask_usage(&all[i], i);
			ask_memory(&all[i], i);
		}
	}
	if (argc > 1 && !strcmp(argv[1], "topology"))
		nccl_topology(stdout, all, count);
	else if (fwrite(all, sizeof(all[0]), (size_t)count, stdout) != (size_t)count)
		return 1;
	return fflush(stdout) ? 1 : 0;
}
