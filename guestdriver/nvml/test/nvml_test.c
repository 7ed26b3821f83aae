/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library makes of the query program's answers. Its functions are called by name, as
 * programs call them.
 */
#include <stdint.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "check.h"
#include "fixture.h"

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	VERSION_MISMATCH = 25
};

typedef void *device;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out);
int nvmlDeviceGetPciInfo_v3(device d, void *out);
int nvmlDeviceGetPciInfoExt(device d, void *out);
int nvmlDeviceGetCurrPcieLinkGeneration(device d, unsigned *out);
int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkGeneration(device d, unsigned *out);
int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *out);
int nvmlDeviceGetGpuMaxPcieLinkGeneration(device d, unsigned *out);
int nvmlDeviceGetPcieLinkMaxSpeed(device d, unsigned *out);
int nvmlDeviceGetPcieSpeed(device d, unsigned *out);
int nvmlDeviceGetBusType(device d, unsigned *out);
int nvmlDeviceGetP2PStatus(device a, device b, unsigned what, int *status);
int nvmlDeviceOnSameBoard(device a, device b, int *same);
int nvmlDeviceGetTopologyNearestGpus(device d, unsigned level, unsigned *count, device *out);
int nvmlSystemGetTopologyGpuSet(unsigned processor, unsigned *count, device *out);
int nvmlDeviceGetGpuFabricInfo(device d, void *out);
int nvmlDeviceGetGpuFabricInfoV(device d, uint32_t *out);
int nvmlSystemGetConfComputeState(uint32_t *out);
int nvmlSystemGetConfComputeSettings(uint32_t *out);
int nvmlDeviceGetCpuAffinity(device d, unsigned words, unsigned long *set);
int nvmlDeviceGetCpuAffinityWithinScope(device d, unsigned words, unsigned long *set,
					unsigned scope);
int nvmlDeviceGetMemoryAffinity(device d, unsigned words, unsigned long *set, unsigned scope);

int nvmlDeviceGetNvLinkState(device d, unsigned link, unsigned *out);
int nvmlDeviceGetNvLinkVersion(device d, unsigned link, unsigned *out);
int nvmlDeviceGetNvLinkCapability(device d, unsigned link, unsigned what, unsigned *out);
int nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, unsigned *out);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, void *out);
int nvmlDeviceGetFieldValues(device d, int count, void *values);
int nvmlDeviceGetTopologyCommonAncestor(device a, device b, unsigned *level);
int nvmlDeviceGetUtilizationRates(device d, unsigned *out);
uint64_t process_memory(const struct gpu *now, uint32_t pid);

static device first, second;

static void before_init(void)
{
	uint32_t words[5] = { 20 | 1 << 24 };
	unsigned count = 1;
	int status;

	CHECK_IS(UNINITIALIZED, nvmlDeviceGetP2PStatus(NULL, NULL, 0, &status));
	CHECK_IS(UNINITIALIZED, nvmlDeviceGetCurrPcieLinkWidth(NULL, &count));
	CHECK_IS(UNINITIALIZED, nvmlSystemGetTopologyGpuSet(0, &count, NULL));
	CHECK_IS(UNINITIALIZED, nvmlSystemGetConfComputeSettings(words));
}

static void links(void)
{
	static const struct {
		int (*function)(device d, unsigned *out);
		unsigned want;
	} numbers[] = {
		{ nvmlDeviceGetCurrPcieLinkGeneration, 4 },
		{ nvmlDeviceGetCurrPcieLinkWidth, 8 },
		{ nvmlDeviceGetMaxPcieLinkGeneration, 5 },
		{ nvmlDeviceGetMaxPcieLinkWidth, 16 },
		{ nvmlDeviceGetGpuMaxPcieLinkGeneration, 6 },
		{ nvmlDeviceGetPcieLinkMaxSpeed, 5 },
		{ nvmlDeviceGetPcieSpeed, 16000 },
		{ nvmlDeviceGetBusType, 2 },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		unsigned got = 4711;

		CHECK_IS(NOT_SUPPORTED, numbers[i].function(second, &got));
		CHECK_IS(4711, got);
		CHECK_IS(SUCCESS, numbers[i].function(first, &got));
		CHECK_IS(numbers[i].want, got);
		CHECK_IS(INVALID_ARGUMENT, numbers[i].function(first, NULL));
		CHECK_IS(INVALID_ARGUMENT, numbers[i].function(&got, &got));
	}
}

struct field {
	uint32_t id, scope;
	int64_t timestamp, latency;
	int32_t type, result;
	uint64_t value;
};

static void nvlinks(void)
{
	static const struct {
		unsigned link;
		int state, result, type, place;
		unsigned bus;
	} wants[] = {
		{ 0, 0, SUCCESS, 2, SUCCESS, 0xa0 },
		{ 1, 0, NOT_SUPPORTED, -1, NOT_SUPPORTED, 0 },
		{ 2, 0, SUCCESS, 0, SUCCESS, 7 },
		{ 3, 0, SUCCESS, 255, NOT_SUPPORTED, 0 },
		{ 4, NOT_SUPPORTED, NOT_SUPPORTED, -1, NOT_SUPPORTED, 0 },
		{ 18, INVALID_ARGUMENT, INVALID_ARGUMENT, -1, INVALID_ARGUMENT, 0 },
	};

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		unsigned n = wants[i].link, got = 4711, info[17] = { 0 };

		CHECK_IS(wants[i].state, nvmlDeviceGetNvLinkState(first, n, &got));
		CHECK_IS(wants[i].state ? 4711 : wants[i].result == SUCCESS, got);
		CHECK_IS(wants[i].result, nvmlDeviceGetNvLinkVersion(first, n, &got));
		CHECK_IS(wants[i].result, nvmlDeviceGetNvLinkRemoteDeviceType(first, n, &got));
		if (wants[i].result == SUCCESS)
			CHECK_IS(wants[i].type, got);
		CHECK_IS(wants[i].place, nvmlDeviceGetNvLinkRemotePciInfo_v2(first, n, info));
		CHECK_IS(wants[i].bus, info[5]);
	}
}

static void nvlink_more(void)
{
	static const struct {
		unsigned id, scope;
		int result;
		unsigned value;
	} wants[] = {
		{ 165, 0, SUCCESS, 1 },		  { 165, 1, SUCCESS, 0 },
		{ 165, 4, NOT_SUPPORTED, 0 },	  { 164, 2, SUCCESS, 25000 },
		{ 164, 3, NOT_SUPPORTED, 0 },	  { 166, 0, SUCCESS, 6 },
		{ 86, 0, SUCCESS, 25000 },	  { 91, 0, SUCCESS, 4 },
		{ 84, 0, NOT_SUPPORTED, 0 },	  { 90, 0, SUCCESS, 26000 },
		{ 147, 0, SUCCESS, 1 },		  { 82, 0, NOT_SUPPORTED, 0 },
		{ 146, 0, SUCCESS, 0 },		  { 146, 2, SUCCESS, 4 },
		{ 146, 1, NOT_SUPPORTED, 0 },	  { 146, 3, NOT_SUPPORTED, 0 },
		{ 165, 99, INVALID_ARGUMENT, 0 },
	};
	struct field none = { .id = 147, .value = 1 };
	unsigned has;

	CHECK_IS(SUCCESS, nvmlDeviceGetNvLinkCapability(first, 2, 0, &has));
	CHECK_IS(1, has);
	CHECK_IS(SUCCESS, nvmlDeviceGetNvLinkCapability(first, 2, 2, &has));
	CHECK_IS(0, has);
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkCapability(first, 2, 6, &has));
	CHECK_IS(NOT_SUPPORTED, nvmlDeviceGetNvLinkState(second, 0, &has));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetNvLinkState(first, 0, NULL));
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		struct field f = { .id = wants[i].id, .scope = wants[i].scope, .value = 1 };

		CHECK_IS(SUCCESS, nvmlDeviceGetFieldValues(first, 1, &f));
		CHECK_IS(wants[i].result, f.result);
		CHECK_IS(wants[i].value, (unsigned)f.value);
	}
	/* The second GPU has no links, so none to switches, as an H200 without links says. */
	CHECK_IS(SUCCESS, nvmlDeviceGetFieldValues(second, 1, &none));
	CHECK_IS(SUCCESS, none.result);
	CHECK_IS(0, (unsigned)none.value);
	CHECK_IS(NOT_SUPPORTED, nvmlDeviceGetTopologyCommonAncestor(first, first, &has));
	CHECK_IS(SUCCESS, nvmlDeviceGetTopologyCommonAncestor(first, second, &has));
	CHECK_IS(50, has);
}

/* NCCL's file tells the links to the GPUs of the VM and to switches, each end once. */
static void topology(void)
{
	static const char want[] =
		"<system version=\"1\">\n  <cpu numaid=\"0\">\n"
		"    <pci busid=\"0000:06:00.0\" class=\"0x030200\" "
		"link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n      <gpu>\n"
		"        <nvlink target=\"0000:a0:00.0\" count=\"1\" tclass=\"0x068000\"/>\n"
		"        <nvlink target=\"0000:07:00.0\" count=\"2\" tclass=\"0x030200\"/>\n"
		"      </gpu>\n    </pci>\n"
		"    <pci busid=\"0000:07:00.0\" class=\"0x030200\">\n      <gpu>\n"
		"      </gpu>\n    </pci>\n"
		"  </cpu>\n</system>\n";
	struct gpu gpus[2] = { fixture[0], fixture[1] };
	char text[2048] = "";
	FILE *to = fmemopen(text, sizeof(text), "w");

	CHECK(to != NULL);
	gpus[0].nvlinks.link[1] = gpus[0].nvlinks.link[2];
	nccl_topology(to, gpus, 2);
	fclose(to);
	CHECK(!strcmp(text, want));
}

static void numbers_on_the_bus(void)
{
	uint32_t info[17], ext[16] = { sizeof(ext) | 1 << 24 };

	CHECK_IS(SUCCESS, nvmlDeviceGetPciInfoExt(first, ext));
	CHECK_IS(0x233510de, ext[4]);
	CHECK_IS(3, ext[6]);
	CHECK_IS(2, ext[7]);
	CHECK_IS(SUCCESS, nvmlDeviceGetPciInfoExt(second, ext));
	CHECK_IS(0, ext[6]);
	CHECK_IS(0, ext[7]);
	CHECK_IS(SUCCESS, nvmlDeviceGetPciInfo_v3(first, info));
	CHECK_IS(0x233510de, info[7]);
	CHECK_IS(0x18bf10de, info[8]);
	CHECK(!strcmp((const char *)&info[9], "00000000:06:00.0"));
	CHECK_IS(SUCCESS, nvmlDeviceGetPciInfo_v3(second, info));
	CHECK_IS(0, info[7]);
}

/* Each pair is asked for, and is answered. */
static void pairs(void)
{
	device all[3] = { NULL, NULL, NULL };
	struct gpu *known = first;
	unsigned count = 1;
	int value;

	for (unsigned what = 0; what < 5; what++) {
		value = -1;
		CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(first, first, what, &value));
		CHECK_IS(5, value);
		/* Reads, writes, atomics, and a link; the way back isn't there. */
		CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(first, second, what, &value));
		CHECK_IS(what == 4 ? 5 : 0, value);
		CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(second, first, what, &value));
		CHECK_IS(5, value);
	}
	/*
	 * What the host's NVML says has priority, for each kind, also for a GPU with
	 * itself.
	 */
	for (unsigned what = 0; what < 4; what++) {
		known->ways.p2p[0][what] = (uint8_t)(what + 1);
		known->ways.p2p[1][what] = 5;
		CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(first, first, what, &value));
		CHECK_IS((int)what, value);
		CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(first, second, what, &value));
		CHECK_IS(4, value);
	}
	CHECK_IS(SUCCESS, nvmlDeviceGetP2PStatus(first, first, 4, &value));
	CHECK_IS(5, value);
	memset(&known->ways, 0, sizeof(known->ways));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetP2PStatus(first, first, 5, &value));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetP2PStatus(first, first, 0, NULL));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetP2PStatus(first, NULL, 0, &value));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetP2PStatus(&value, first, 0, &value));
	CHECK_IS(SUCCESS, nvmlDeviceOnSameBoard(first, first, &value));
	CHECK_IS(1, value);
	CHECK_IS(SUCCESS, nvmlDeviceOnSameBoard(first, second, &value));
	CHECK_IS(0, value);
	CHECK_IS(SUCCESS, nvmlDeviceGetTopologyNearestGpus(first, 50, &count, all));
	CHECK_IS(1, count);
	CHECK(all[0] == second && !all[1]);
	all[0] = NULL;
	CHECK_IS(SUCCESS, nvmlDeviceGetTopologyNearestGpus(first, 40, &count, all));
	CHECK_IS(0, count);
	CHECK_IS(SUCCESS, nvmlDeviceGetTopologyNearestGpus(second, 50, &count, all));
	CHECK_IS(1, count);
	CHECK(!all[0]); /* there was no room */
	count = 1;
	CHECK_IS(SUCCESS, nvmlSystemGetTopologyGpuSet(0, &count, all));
	CHECK_IS(2, count);
	CHECK(all[0] == first && !all[1]);
	CHECK_IS(SUCCESS, nvmlSystemGetTopologyGpuSet(0, &count, all));
	CHECK(all[1] == second && !all[2]);
}

/* Records of all versions are filled in, and nothing after them. */
static void fabrics(void)
{
	static const struct {
		uint32_t bytes, version;
	} versions[] = { { 36, 2 }, { 40, 3 } };
	/* Behind the version: the cluster, status, clique, state, health, summary. */
	static const uint32_t want[9] = { 1, 0, 0, 2u << 24, 3, 4, 6, 5, 7 };
	uint32_t r[12];

	for (size_t i = 0; i < 2; i++) {
		memset(r, 0xff, sizeof(r));
		r[0] = versions[i].bytes | versions[i].version << 24;
		CHECK_IS(SUCCESS, nvmlDeviceGetGpuFabricInfoV(first, r));
		for (uint32_t w = 1; w < 12; w++)
			CHECK_IS(w < versions[i].bytes / 4 ? want[w - 1] : ~0u, r[w]);
		CHECK_IS(SUCCESS, nvmlDeviceGetGpuFabricInfoV(second, r));
		for (uint32_t w = 1; w < versions[i].bytes / 4; w++)
			CHECK_IS(0, r[w]);
	}
	r[0] = 44 | 9u << 24;
	CHECK_IS(VERSION_MISMATCH, nvmlDeviceGetGpuFabricInfoV(first, r));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetGpuFabricInfoV(first, NULL));
	memset(r, 0xff, sizeof(r));
	CHECK_IS(SUCCESS, nvmlDeviceGetGpuFabricInfo(first, r));
	for (uint32_t w = 0; w < 12; w++)
		CHECK_IS(w < 7 ? want[w] : ~0u, r[w]);
}

static void confidential(void)
{
	uint32_t r[12];

	memset(r, 0xff, sizeof(r));
	CHECK_IS(SUCCESS, nvmlSystemGetConfComputeState(r));
	CHECK_IS(0, r[2]);
	r[0] = 20 | 1 << 24;
	CHECK_IS(SUCCESS, nvmlSystemGetConfComputeSettings(r));
	r[0] = 24 | 1 << 24;
	CHECK_IS(VERSION_MISMATCH, nvmlSystemGetConfComputeSettings(r));
}

static void near(void)
{
	unsigned long set[18];
	int count = 0;

	memset(set, 0xff, sizeof(set));
	CHECK_IS(SUCCESS, nvmlDeviceGetCpuAffinity(first, 17, set));
	for (int i = 0; i < 17; i++)
		count += __builtin_popcountl(set[i]);
	CHECK_IS(get_nprocs(), count);
	CHECK_IS(~0ul, set[17]);
	CHECK_IS(SUCCESS, nvmlDeviceGetCpuAffinityWithinScope(first, 17, set, 1));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetCpuAffinityWithinScope(first, 17, set, 2));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetCpuAffinity(first, 0, set));
	CHECK_IS(SUCCESS, nvmlDeviceGetMemoryAffinity(first, 1, set, 0));
	CHECK_IS(1, set[0] & 1);
}

static void usage(void)
{
	unsigned rates[2] = { 1, 1 };

	CHECK_IS(SUCCESS, nvmlDeviceGetUtilizationRates(first, rates));
	CHECK_IS(37, (int)rates[0]);
	CHECK_IS(0, (int)rates[1]);
	CHECK_IS(NOT_SUPPORTED, nvmlDeviceGetUtilizationRates(second, rates));
	CHECK_IS(INVALID_ARGUMENT, nvmlDeviceGetUtilizationRates(first, NULL));
	CHECK(process_memory(&fixture[0], 8) == ~0ull);
	CHECK(process_memory(&fixture[1], 7) == ~0ull);
}

int main(void)
{
	before_init();
	CHECK_IS(SUCCESS, nvmlInit_v2());
	CHECK_IS(SUCCESS, nvmlDeviceGetHandleByIndex_v2(0, &first));
	CHECK_IS(SUCCESS, nvmlDeviceGetHandleByIndex_v2(1, &second));
	links();
	nvlinks();
	nvlink_more();
	topology();
	numbers_on_the_bus();
	pairs();
	fabrics();
	confidential();
	near();
	usage();
	CHECK_IS(SUCCESS, nvmlShutdown());
	return 0;
}
