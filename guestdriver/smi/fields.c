/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --query-gpu can ask. What NVML doesn't know in a VM (the hardware's state) is a field
 * without a value, [N/A], so that scripts that ask for it go on.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "smi.h"

#define VALUE(function)                                                       \
	static bool function(__attribute__((unused)) const struct machine *m, \
			     __attribute__((unused)) const struct card *c, char *to)

static bool text(char *to, const char *value)
{
	snprintf(to, TEXT_MAX, "%s", value);
	return true;
}

static bool whole(char *to, unsigned long long value)
{
	snprintf(to, TEXT_MAX, "%llu", value);
	return true;
}

static bool known(char *to, unsigned value)
{
	return value && whole(to, value);
}

static bool mebibytes(char *to, const struct card *c, uint64_t bytes)
{
	return c->memory_known && whole(to, bytes >> 20);
}

void time_text(char *to, size_t room)
{
	struct timespec now;
	char date[32];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y/%m/%d %H:%M:%S", &tm);
	snprintf(to, room, "%s.%03ld", date, now.tv_nsec / 1000000);
}

VALUE(timestamp)
{
	time_text(to, TEXT_MAX);
	return true;
}
VALUE(driver_version)
{
	return text(to, m->driver);
}
VALUE(count)
{
	return whole(to, m->count);
}
VALUE(name)
{
	return text(to, c->name);
}
VALUE(uuid)
{
	return text(to, c->uuid);
}
VALUE(index_of)
{
	return whole(to, c->index);
}
VALUE(bus_id)
{
	return text(to, c->pci.id);
}
VALUE(domain)
{
	snprintf(to, TEXT_MAX, "0x%04X", c->pci.domain);
	return true;
}
VALUE(bus)
{
	snprintf(to, TEXT_MAX, "0x%02X", c->pci.bus);
	return true;
}
VALUE(device)
{
	snprintf(to, TEXT_MAX, "0x%02X", c->pci.device);
	return true;
}
VALUE(gen)
{
	return known(to, c->gen);
}
VALUE(gen_max)
{
	return known(to, c->gen_max);
}
VALUE(width)
{
	return known(to, c->width);
}
VALUE(width_max)
{
	return known(to, c->width_max);
}
VALUE(total)
{
	return mebibytes(to, c, c->memory.total);
}
VALUE(used)
{
	return mebibytes(to, c, c->memory.used);
}
VALUE(free_memory)
{
	return mebibytes(to, c, c->memory.free);
}
VALUE(busy)
{
	return c->utilization_known && whole(to, c->utilization.gpu);
}
VALUE(busy_memory)
{
	return c->utilization_known && whole(to, c->utilization.memory);
}
VALUE(capability)
{
	snprintf(to, TEXT_MAX, "%d.%d", c->major, c->minor);
	return c->capability_known;
}
VALUE(compute_mode)
{
	return text(to, "Default");
}
VALUE(persistence)
{
	return text(to, c->persistent ? "Enabled" : "Disabled");
}
VALUE(disabled)
{
	return text(to, "Disabled");
}

static const struct field fields[] = {
	{ "timestamp", NULL, NULL, timestamp, NULL },
	{ "driver_version", NULL, NULL, driver_version, NULL },
	{ "count", NULL, NULL, count, NULL },
	{ "name", "gpu_name", NULL, name, NULL },
	{ "uuid", "gpu_uuid", NULL, uuid, NULL },
	{ "index", NULL, NULL, index_of, NULL },
	{ "serial", "gpu_serial", NULL, NULL, NULL },
	{ "pci.bus_id", "gpu_bus_id", NULL, bus_id, NULL },
	{ "pci.domain", NULL, NULL, domain, NULL },
	{ "pci.bus", NULL, NULL, bus, NULL },
	{ "pci.device", NULL, NULL, device, NULL },
	{ "pcie.link.gen.current", NULL, NULL, gen, NULL },
	{ "pcie.link.gen.max", NULL, NULL, gen_max, NULL },
	{ "pcie.link.width.current", NULL, NULL, width, NULL },
	{ "pcie.link.width.max", NULL, NULL, width_max, NULL },
	{ "persistence_mode", NULL, NULL, persistence, NULL },
	{ "display_mode", NULL, NULL, disabled, NULL },
	{ "display_active", NULL, NULL, disabled, NULL },
	{ "compute_mode", NULL, NULL, compute_mode, NULL },
	{ "compute_cap", NULL, NULL, capability, NULL },
	{ "memory.total", NULL, "MiB", total, NULL },
	{ "memory.used", NULL, "MiB", used, NULL },
	{ "memory.free", NULL, "MiB", free_memory, NULL },
	{ "utilization.gpu", NULL, "%", busy, NULL },
	{ "utilization.memory", NULL, "%", busy_memory, NULL },
	{ "vbios_version", NULL, NULL, NULL, NULL },
	{ "fan.speed", NULL, "%", NULL, NULL },
	{ "pstate", NULL, NULL, NULL, NULL },
	{ "temperature.gpu", NULL, NULL, NULL, NULL },
	{ "temperature.memory", NULL, NULL, NULL, "N/A" },
	{ "power.draw", NULL, "W", NULL, NULL },
	{ "power.limit", NULL, "W", NULL, NULL },
	{ "enforced.power.limit", NULL, "W", NULL, NULL },
	{ "power.default_limit", NULL, "W", NULL, NULL },
	{ "power.min_limit", NULL, "W", NULL, NULL },
	{ "power.max_limit", NULL, "W", NULL, NULL },
	{ "clocks.current.graphics", "clocks.gr", "MHz", NULL, NULL },
	{ "clocks.current.sm", "clocks.sm", "MHz", NULL, NULL },
	{ "clocks.current.memory", "clocks.mem", "MHz", NULL, NULL },
	{ "clocks.current.video", "clocks.video", "MHz", NULL, NULL },
	{ "clocks.max.graphics", "clocks.max.gr", "MHz", NULL, NULL },
	{ "clocks.max.sm", NULL, "MHz", NULL, NULL },
	{ "clocks.max.memory", "clocks.max.mem", "MHz", NULL, NULL },
	{ "ecc.mode.current", NULL, NULL, NULL, NULL },
	{ "ecc.mode.pending", NULL, NULL, NULL, NULL },
};

const struct field *field_find(const char *wanted)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(wanted, fields[i].name) ||
		    (fields[i].other_name && !strcmp(wanted, fields[i].other_name)))
			return &fields[i];
	return NULL;
}

void fields_print(void)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		printf("%s", fields[i].name);
		if (fields[i].other_name)
			printf(" or %s", fields[i].other_name);
		if (!fields[i].value)
			printf(" (never known in a VM)");
		putchar('\n');
	}
}
