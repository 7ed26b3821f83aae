/* SPDX-License-Identifier: Apache-2.0 */
#include "exports/md2.h"

#include <string.h>

/* A permutation made from the digits of pi, as RFC 1319 has it. */
static const uint8_t pi[256] = {
	41,  46,  67,  201, 162, 216, 124, 1,	61,  54,  84,  161, 236, 240, 6,   19,	98,  167,
	5,   243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,
	253, 212, 224, 22,  103, 66,  111, 24,	138, 23,  229, 18,  190, 78,  196, 214, 218, 158,
	222, 73,  160, 251, 245, 142, 187, 47,	238, 122, 169, 104, 121, 145, 21,  178, 7,   63,
	148, 194, 16,  137, 11,	 34,  95,  33,	128, 127, 93,  154, 90,	 144, 50,  39,	53,  62,
	204, 231, 191, 247, 151, 3,   255, 25,	48,  179, 72,  165, 181, 209, 215, 94,	146, 42,
	172, 86,  170, 198, 79,	 184, 56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116,
	4,   241, 69,  157, 112, 89,  100, 113, 135, 32,  134, 91,  207, 101, 230, 45,	168, 2,
	27,  96,  37,  173, 174, 176, 185, 246, 28,  70,  97,  105, 52,	 64,  126, 15,	85,  71,
	163, 35,  221, 81,  175, 58,  195, 92,	249, 206, 186, 197, 234, 38,  44,  83,	13,  110,
	133, 40,  132, 9,   211, 223, 205, 244, 65,  129, 77,  82,  106, 220, 55,  200, 108, 193,
	171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120, 136, 149, 139, 227, 99,	232, 109,
	233, 203, 213, 254, 59,	 0,   29,  57,	242, 239, 183, 14,  102, 88,  208, 228, 166, 119,
	114, 248, 235, 117, 75,	 10,  49,  68,	80,  180, 143, 237, 31,	 26,  219, 153, 141, 51,
	159, 17,  131, 20,
};

void md2_init(struct md2 *m)
{
	memset(m, 0, sizeof(*m));
}

static void take_block(struct md2 *m, const uint8_t *block)
{
	uint8_t t = m->checksum[15];

	for (int i = 0; i < 16; i++)
		t = m->checksum[i] ^= pi[block[i] ^ t];
	for (int i = 0; i < 16; i++) {
		m->state[16 + i] = block[i];
		m->state[32 + i] = block[i] ^ m->state[i];
	}
	t = 0;
	for (int round = 0; round < 18; round++) {
		for (int i = 0; i < 48; i++)
			t = m->state[i] ^= pi[t];
		t = (uint8_t)(t + round);
	}
}

void md2_add(struct md2 *m, const void *data, size_t bytes)
{
	const uint8_t *from = data;

	while (bytes--) {
		m->block[m->filled++] = *from++;
		if (m->filled == sizeof(m->block)) {
			take_block(m, m->block);
			m->filled = 0;
		}
	}
}

void md2_end(struct md2 *m, uint8_t digest[MD2_BYTES])
{
	uint8_t checksum[16];
	uint8_t left = (uint8_t)(16 - m->filled);
	uint8_t padding[16];

	memset(padding, left, left);
	md2_add(m, padding, left);
	memcpy(checksum, m->checksum, sizeof(checksum));
	md2_add(m, checksum, sizeof(checksum));
	memcpy(digest, m->state, MD2_BYTES);
}

void hmac_md2(const uint8_t key[MD2_BYTES], const void *message, size_t bytes,
	      uint8_t digest[MD2_BYTES])
{
	uint8_t inner[16], outer[16];
	struct md2 m;

	for (int i = 0; i < 16; i++) {
		inner[i] = key[i] ^ 0x36;
		outer[i] = key[i] ^ 0x5c;
	}
	md2_init(&m);
	md2_add(&m, inner, sizeof(inner));
	md2_add(&m, message, bytes);
	md2_end(&m, digest);
	md2_init(&m);
	md2_add(&m, outer, sizeof(outer));
	md2_add(&m, digest, MD2_BYTES);
	md2_end(&m, digest);
}
