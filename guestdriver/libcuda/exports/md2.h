/* SPDX-License-Identifier: Apache-2.0 */
/* The MD2 message digest (RFC 1319) and HMAC over it (RFC 2104). */
#ifndef PARACUDA_MD2_H
#define PARACUDA_MD2_H

#include <stddef.h>
#include <stdint.h>

#define MD2_BYTES 16

struct md2 {
	uint8_t state[48];
	uint8_t checksum[16];
	uint8_t block[16];
	size_t filled;
};

void md2_init(struct md2 *m);
void md2_add(struct md2 *m, const void *data, size_t bytes);
void md2_end(struct md2 *m, uint8_t digest[MD2_BYTES]);

void hmac_md2(const uint8_t key[MD2_BYTES], const void *message, size_t bytes,
	      uint8_t digest[MD2_BYTES]);

#endif
