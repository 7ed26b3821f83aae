/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_maps.h"

#include <errno.h>
#include <pthread.h>

#include "fake_device.h"
#include "fake_worker.h"
#include "paracuda_wire.h"

#define MAPS 4096

static struct {
	uint64_t address;
	uint64_t bytes;
	uint32_t flags;
	bool used;
} maps[MAPS];
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;

int fake_map(struct paracuda_ioctl_map *map)
{
	int error = EAGAIN;

	if (fake.max_map && map->bytes > fake.max_map)
		return EINVAL;
	pthread_mutex_lock(&maps_lock);
	if (fake.max_pinned && fake.pinned + map->bytes > fake.max_pinned)
		error = ENOMEM;
	for (uint32_t i = 1; i < MAPS && error == EAGAIN; i++) {
		if (maps[i].used)
			continue;
		maps[i].address = map->address;
		maps[i].bytes = map->bytes;
		maps[i].flags = map->flags;
		maps[i].used = true;
		map->id = i;
		fake.maps++;
		fake.maps_out++;
		fake.pinned += map->bytes;
		if (fake.pinned > fake.most_pinned)
			fake.most_pinned = fake.pinned;
		error = 0;
	}
	pthread_mutex_unlock(&maps_lock);
	return error;
}

void fake_unmap(uint32_t id)
{
	pthread_mutex_lock(&maps_lock);
	if (id < MAPS && maps[id].used) {
		maps[id].used = false;
		fake.pinned -= maps[id].bytes;
		fake.maps_out--;
		fake.unmaps++;
	}
	pthread_mutex_unlock(&maps_lock);
}

void *fake_buffer(const uint8_t *at, uint64_t reference, uint64_t bytes, uint32_t *id)
{
	uint64_t value = reference & 0xffffffffffffff;
	void *p = NULL;
	uint32_t map;

	*id = 0;
	switch (reference >> 56) {
	case PARACUDA_BUFFER_INLINE:
		return (void *)(at + value);
	case PARACUDA_BUFFER_BULK:
		return fake_arena() + value;
	case PARACUDA_BUFFER_MAP:
		map = (uint32_t)(value >> 32);
		pthread_mutex_lock(&maps_lock);
		if (map < MAPS && maps[map].used &&
		    (value & 0xffffffff) + bytes <= maps[map].bytes) {
			p = (void *)(uintptr_t)(maps[map].address + (value & 0xffffffff));
			*id = maps[map].flags & PARACUDA_MAP_FLAG_ONESHOT ? map : 0;
		}
		pthread_mutex_unlock(&maps_lock);
		return p;
	}
	return NULL;
}

bool fake_mapped(uint64_t address, uint64_t bytes)
{
	bool found = false;

	pthread_mutex_lock(&maps_lock);
	for (uint32_t i = 1; i < MAPS && !found; i++)
		found = maps[i].used && address >= maps[i].address &&
			address + bytes <= maps[i].address + maps[i].bytes;
	pthread_mutex_unlock(&maps_lock);
	return found;
}
