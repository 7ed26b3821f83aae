/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct name {
	struct name *next;
	char text[];
};

#define BUCKETS 4096

static struct name *buckets[BUCKETS];

static unsigned bucket_of(const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash % BUCKETS;
}

const char *name_keep(const char *text)
{
	struct name **bucket = &buckets[bucket_of(text)], *n;
	size_t bytes = strlen(text) + 1;

	for (n = *bucket; n; n = n->next)
		if (!strcmp(n->text, text))
			return n->text;
	n = malloc(sizeof(*n) + bytes);
	if (!n)
		return NULL;
	memcpy(n->text, text, bytes);
	n->next = *bucket;
	*bucket = n;
	return n->text;
}
