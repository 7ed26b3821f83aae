/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVML with a GPU of four links: to a switch, down, to a GPU, and to what it doesn't tell. Three
 * processes compute on it. It has another GPU without any.
 */
#include <string.h>

static char gpu, other;

static const char *const uuids[] = {
	"GPU-01020304-0506-0708-090a-0b0c0d0e0f10",
	"GPU-ffffffff-0000-0000-0000-000000000001",
};

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char text[32];
};

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu, compute;
};

struct field {
	unsigned int field, scope;
	long long timestamp, latency;
	int type, result;
	unsigned long long value;
};

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *n)
{
	*n = 2;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	*device = i ? &other : &gpu;
	return i > 1 ? 2 : 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	for (unsigned int i = 0; i < 2; i++)
		if (!strcmp(uuid, uuids[i]))
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	return 6;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int room)
{
	if (room < 41)
		return 7;
	strcpy(text, uuids[device == &other]);
	return 0;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *state)
{
	*state = link != 1;
	return link < 4 && device == &gpu ? 0 : 2;
}

/* Kind 4 isn't known; of the others status n from the first to the second, 0 back, 5 to itself. */
int nvmlDeviceGetP2PStatus(void *from, void *to, unsigned int kind, unsigned int *status)
{
	*status = from == to ? 5 : from == &gpu ? kind : 0;
	return kind == 4 ? 3 : 0;
}

int nvmlDeviceGetNvLinkVersion(void *device, unsigned int link, unsigned int *version)
{
	(void)device;
	(void)link;
	*version = 6;
	return 0;
}

int nvmlDeviceGetNvLinkCapability(void *device, unsigned int link, unsigned int what,
				  unsigned int *has)
{
	(void)device;
	(void)link;
	*has = what == 0 || what == 2;
	return what == 5 ? 3 : 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct pci *out)
{
	(void)device;
	memset(out, 0, sizeof(*out));
	out->bus = 0xa0 + link;
	if (link == 0) { /* as NVML says of a switch whose place it doesn't know */
		out->domain = 0xffffffff;
		out->bus = out->device = 0xff;
	}
	return link == 3 ? 3 : 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type)
{
	(void)device;
	*type = link == 0 ? 2 : 0;
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3])
{
	(void)device;
	memory[0] = 3 << 20;
	memory[1] = 2 << 20;
	memory[2] = 1 << 20;
	return 0;
}

int nvmlDeviceGetFieldValues(void *device, int count, struct field *values)
{
	(void)device;
	for (int i = 0; i < count; i++) { /* of the fields that are named after a link, link 2's */
		unsigned int field = values[i].field;

		values[i].result = field == 164 || field == 86 || field == 90 ? 0 : 3;
		values[i].value = field == 90 ? 26000 : 26562 + values[i].scope;
		if (field == 146 && values[i].scope != 3) {
			values[i].result = 0;
			values[i].value = values[i].scope;
		}
	}
	return 0;
}

struct fabric {
	unsigned int version;
	unsigned char cluster[16];
	unsigned int status, clique;
	unsigned char state;
	unsigned int health;
	unsigned char summary;
};

/* The first GPU's is complete, in either version of the answer. The other knows version 2 alone. */
int nvmlDeviceGetGpuFabricInfoV(void *device, struct fabric *out)
{
	int newest = out->version == (sizeof(*out) | 3 << 24);

	if (device == &other && newest)
		return 25;
	if (!newest && out->version != (36 | 2 << 24))
		return 25;
	for (unsigned int i = 0; i < 16; i++)
		out->cluster[i] = device == &gpu ? 0xa0 + i : 0;
	out->status = device == &gpu ? 0 : 3;
	out->clique = device == &gpu ? 7 : 0;
	out->state = device == &gpu ? 3 : 1;
	out->health = 0x5155;
	if (newest)
		out->summary = 2;
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *n, struct process *list)
{
	if (*n < 3)
		return 7;
	if (device == &other) {
		*n = 0;
		return 0;
	}
	list[0] = (struct process){ 10, 526ull << 20, 0, 0 };
	list[1] = (struct process){ 11, ~0ull, 0, 0 };
	list[2] = (struct process){ 12, 5ull << 30, 0, 0 };
	*n = 3;
	return 0;
}
