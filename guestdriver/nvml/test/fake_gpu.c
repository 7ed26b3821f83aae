/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fixture.h"

int gpu_query(struct gpu *gpus, int room, int with_memory)
{
	int n = sizeof(fixture) / sizeof(fixture[0]);

	(void)with_memory;
	if (n > room)
		n = room;
	memcpy(gpus, fixture, (size_t)n * sizeof(*gpus));
	return n;
}
