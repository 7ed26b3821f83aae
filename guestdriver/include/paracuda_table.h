/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the guest's libcuda.so.1 offers Paracuda's own programs beyond CUDA: a table of functions
 * (cuGetExportTable).
 */
#ifndef PARACUDA_OWN_TABLE_H
#define PARACUDA_OWN_TABLE_H

#include <stdint.h>

/* The table's UUID, byte by byte. */
#define PARACUDA_TABLE_ID 'P', 'a', 'r', 'a', 'c', 'u', 'd', 'a', ' ', 't', 'a', 'b', 'l', 'e', 0, 1

/* A GPU's PCI Express link on the host. What isn't known is 0. */
struct paracuda_link {
	uint32_t generation, width;	    /* at the moment when this process connected */
	uint32_t max_generation, max_width; /* where it is plugged in */
	uint32_t own_generation;	    /* at most, wherever it is plugged in */
	uint32_t class; /* of the PCI device, with its subclass in the low byte */
};

#define PARACUDA_NVLINKS_MAX 32
#define PARACUDA_GPUS_MAX 64

/* One NVLink of a GPU. What isn't known is 0. */
struct paracuda_nvlink {
	uint8_t version; /* NVML's number; 0: it isn't up */
	uint8_t capabilities; /* bit n: NVML's capability n */
	uint8_t remote; /* the other end, as NVML numbers it: 0 a GPU, 2 a switch, 255 not known */
	uint8_t named; /* the host's NVML tells its speed in the field named after it, too */
	uint32_t speed; /* in MB/s */
	uint32_t domain, bus, device; /* where the other end is */
	uint32_t remote_link; /* its number there, plus 1 */
};

/* Those of a GPU. */
struct paracuda_nvlinks {
	uint32_t count;
	uint32_t common_speed; /* of all, in MB/s, if the host's NVML tells that; otherwise 0 */
	struct paracuda_nvlink link[PARACUDA_NVLINKS_MAX];
	uint8_t to[PARACUDA_GPUS_MAX]; /* how many lead to each GPU, directly or by switches */
};

/* The fabric of NVLinks that a GPU is part of, with NVML's numbers. */
struct paracuda_fabric {
	uint8_t cluster[16]; /* all 0: none beyond the host */
	uint32_t status, clique, health;
	uint8_t state; /* 0: not supported, or not known */
	uint8_t summary;
	uint8_t unused[2];
};

#define PARACUDA_P2P 5

/* From a GPU to each: NVML's status of each of its kinds of access, plus 1; 0: not known. */
struct paracuda_ways {
	uint8_t p2p[PARACUDA_GPUS_MAX][PARACUDA_P2P];
};

/* A process of the VM that has memory of a GPU. */
struct paracuda_holder {
	uint32_t pid, unused;
	uint64_t bytes;
};

#define PARACUDA_HOLDERS_MAX 64

/* What the VM has of a GPU, by the host's count. */
struct paracuda_usage {
	uint32_t busy_known, busy; /* the part of the last second for which it had it, in percent */
	uint32_t holders, unused;
	struct paracuda_holder holder[PARACUDA_HOLDERS_MAX];
};

enum paracuda_work_kind { PARACUDA_KERNEL, PARACUDA_COPY, PARACUDA_FILL, PARACUDA_GRAPH };

/* Where memory lies; the numbers are CUPTI's. */
enum paracuda_memory { PARACUDA_PAGEABLE = 1, PARACUDA_PINNED = 2, PARACUDA_DEVICE = 3 };

/* Something that a program gives to the GPU. */
struct paracuda_work {
	enum paracuda_work_kind kind;
	void *stream;			/* CUstream */
	void *function;			/* CUfunction, of a kernel */
	uint32_t grid[3], block[3], shared;
	uint64_t bytes;			/* of a copy or a fill */
	uint32_t value;			/* of a fill */
	enum paracuda_memory from, to;	/* of a copy, and the target of a fill */
};

/*
 * A watcher: `begin` is called in the thread that submits work, before it is queued, and `end`
 * afterwards with what `begin` returned, unless that was NULL. Work isn't watched while any stream
 * is captured, nor is work that these functions submit.
 */
struct paracuda_watcher {
	void *(*begin)(const struct paracuda_work *work);
	void (*end)(void *mark, int result);
};

struct paracuda_table {
	uintptr_t bytes; /* of the table */
	int (*device_link)(struct paracuda_link *link, int device);
	/* The watcher must never be freed; NULL: nobody. */
	void (*watch)(const struct paracuda_watcher *watcher);
	int (*device_usage)(struct paracuda_usage *usage, int device);
	int (*device_nvlinks)(struct paracuda_nvlinks *links, int device);
	int (*device_ways)(struct paracuda_ways *ways, int device);
	int (*device_fabric)(struct paracuda_fabric *fabric, int device);
};

#endif
