/* SPDX-License-Identifier: Apache-2.0 */
/* MD2 against RFC 1319's own vectors, and the runtime's check value against recorded ones. */
#include <string.h>

#include "check.h"
#include "exports/integrity.h"
#include "exports/md2.h"

static void hex(const void *data, size_t bytes, char *text)
{
	for (size_t i = 0; i < bytes; i++)
		sprintf(text + 2 * i, "%02x", ((const uint8_t *)data)[i]);
}

static void check_md2(const char *message, const char *want)
{
	uint8_t digest[MD2_BYTES];
	char got[40];
	struct md2 m;

	md2_init(&m);
	md2_add(&m, message, strlen(message));
	md2_end(&m, digest);
	hex(digest, sizeof(digest), got);
	CHECK(!strcmp(got, want));
}

static void check_value(unsigned devices, uint32_t version, const char *want)
{
	struct integrity in = {
		.driver_version = 12080,
		.version = version,
		.process = 0x002fa423,
		.thread = 0xf79c1000,
		.cudart_table = 0x7ffff6958240,
		.integrity_table = 0x7ffff6958220,
		.function = 0x7ffff2aaf4a0,
		.seconds = 0x682b9cee,
	};
	struct integrity_device device = {
		.uuid = { 0x9a, 0xfe, 0x2b, 0x8a, 0xac, 0x25, 0x2d, 0x38, 0xea, 0x37, 0xae, 0xc5,
			  0x6d, 0x71, 0x32, 0x5f },
		.bus = 2,
	};
	uint64_t out[2];
	char got[40];

	integrity_value(&in, &device, devices, out);
	hex(out, sizeof(out), got);
	CHECK(!strcmp(got, want));
}

int main(void)
{
	check_md2("", "8350e5a3e24c153df2275c9f80692773");
	check_md2("a", "32ec01ec4a6dac72c0ab96fb34c0b5d1");
	check_md2("abc", "da853b0d3f88d99b30283a69e6ded6bb");
	check_md2("message digest", "ab4f496bfb2a530b219ff33031fe06b0");
	check_md2(
		"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
		"d5976f79d83d3a0dc9806c3c66f3efd8");
	check_value(0, 12082, "0779ef5e4ffa2dd207527503d1907bfa");
	check_value(1, 12082, "4448a171b026cef76c8c3e39051b02dd");
	check_value(1, 12080, "5c67cb031c184133e8d14c1faa83d38e");
	check_value(1, 12081, "5c67cb031c184118e8d14c1faa83d38e");
	return 0;
}
