/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of launches of all shapes, packed as described: compared with a plain copy of each. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "code/function.h"
#include "launches/launch.h"
#include "transport/channel.h"

#define MOST 70

static struct description *describe(const struct parameter *p, unsigned count, uint32_t bytes)
{
	struct paracuda_function_record r = { .parameters = count, .parameter_bytes = bytes };
	uint8_t record[sizeof(r) + MOST * sizeof(*p)];
	struct description *d;

	memcpy(record, &r, sizeof(r));
	memcpy(record + sizeof(r), p, count * sizeof(*p));
	CHECK_IS(0, description_parse(record, sizeof(r) + count * sizeof(*p), &d));
	return d;
}

/* Parameters of `least` to `most` bytes each, `gap` bytes apart at the most. */
static void pack(unsigned count, uint32_t least, uint32_t most, uint32_t gap)
{
	struct parameter p[MOST];
	uint8_t value[MOST][64], packed[8192], want[sizeof(packed)];
	void *at[MOST];
	uint32_t end = 0;
	struct description *d;

	for (unsigned i = 0; i < count; i++) {
		p[i].offset = end + (gap ? (uint32_t)rand() % (gap + 1) : 0);
		p[i].bytes = least + (uint32_t)rand() % (most - least + 1);
		end = p[i].offset + p[i].bytes;
		for (unsigned b = 0; b < p[i].bytes; b++)
			value[i][b] = (uint8_t)rand();
		at[i] = value[i];
	}
	d = describe(p, count, end);
	memset(packed, 0xa5, sizeof(packed));
	memset(want, 0, end);
	memset(want + end, 0xa5, sizeof(want) - end);
	for (unsigned i = 0; i < count; i++)
		memcpy(want + p[i].offset, value[i], p[i].bytes);
	launch_pack(packed, d, at);
	CHECK(!memcmp(packed, want, sizeof(want)));
	free(d);
}

int main(void)
{
	for (unsigned count = 0; count <= MOST; count++) {
		for (unsigned bytes = 1; bytes <= 16; bytes++) {
			pack(count, bytes, bytes, 0);
			pack(count, bytes, bytes, 8);
		}
		pack(count, 1, 64, 0);
		pack(count, 1, 64, 16);
	}
	return 0;
}
