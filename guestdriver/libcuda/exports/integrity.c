/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "exports/integrity.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/state.h"
#include "devices/device.h"
#include "exports/export_table.h"
#include "exports/md2.h"

_Static_assert(sizeof(struct integrity) == 48, "the message is these bytes");
_Static_assert(sizeof(struct integrity_device) == 28, "the message is these bytes");

static const uint8_t key[MD2_BYTES] = {
	0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
};

void integrity_value(const struct integrity *in, const struct integrity_device *list, unsigned count, uint64_t out[2])
{
	uint8_t message[sizeof(*in) + DEVICES_MAX * sizeof(*list)];
	uint8_t digest[MD2_BYTES];

	switch (in->version % 10) {
	case 0:
		out[0] = 0x3341181c03cb675c;
		out[1] = 0x8ed383aa1f4cd1e8;
		return;
	case 1:
		out[0] = 0x1841181c03cb675c;
		out[1] = 0x8ed383aa1f4cd1e8;
		return;
	default:
		memcpy(message, in, sizeof(*in));
		if (count)
			memcpy(message + sizeof(*in), list, count * sizeof(*list));
		hmac_md2(key, message, sizeof(*in) + count * sizeof(*list), digest);
		memcpy(out, digest, sizeof(digest));
	}
}

CUresult integrity_check(uint32_t version, uint64_t seconds, uint64_t out[2])
{
	struct integrity_device list[DEVICES_MAX];
	struct integrity in = {
		.driver_version = (uint32_t)devices.driver_version,
		.version = version,
		.process = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.cudart_table = export_table_address(EXPORT_TABLE_CUDART),
		.integrity_table = export_table_address(EXPORT_TABLE_INTEGRITY),
		.function = (uint64_t)(uintptr_t)integrity_check,
		.seconds = seconds,
	};
	unsigned count = state_check() ? 0 : devices.count;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		memcpy(list[i].uuid, devices.snapshot[i]->uuid, 16);
		list[i].domain = device_number((int)i, ATTRIBUTE_PCI_DOMAIN_ID);
		list[i].bus = device_number((int)i, ATTRIBUTE_PCI_BUS_ID);
		list[i].device = device_number((int)i, ATTRIBUTE_PCI_DEVICE_ID);
	}
	integrity_value(&in, list, count, out);
	return CUDA_SUCCESS;
}
