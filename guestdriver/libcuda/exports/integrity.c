/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "exports/integrity.h"

#include <string.h>

#include "devices/device.h"
#include "exports/md2.h"

_Static_assert(sizeof(struct integrity) == 48, "the message is these bytes");
_Static_assert(sizeof(struct integrity_device) == 28, "the message is these bytes");

static const uint8_t key[MD2_BYTES] = {
	0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52,
	0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
};

void integrity_value(const struct integrity *in, const struct integrity_device *list,
		     unsigned count, uint64_t out[2])
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
