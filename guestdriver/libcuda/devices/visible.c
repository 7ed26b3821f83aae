/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/least.h"
#include "devices/device.h"

/* A UUID as CUDA_VISIBLE_DEVICES has it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. */
static void uuid_text(const uint8_t *u, char *text, size_t size)
{
	snprintf(text, size,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		 u[14], u[15]);
}

/* The number that an entry is, or -1. */
static long ordinal(const char *entry, size_t length)
{
	char text[64], *end;
	long number;

	if (!length || length >= sizeof(text))
		return -1;
	memcpy(text, entry, length);
	text[length] = 0;
	number = strtol(text, &end, 10);
	return end != text ? number : -1;
}

/*
 * The device that an entry names, or -1. A UUID may be cut short if it still names only one device;
 * what follows a whole one is ignored.
 */
static int find(const char *entry, size_t length,
		const struct paracuda_inventory_device *const *all, unsigned n)
{
	char text[64];
	int found = -1;
	long number;

	if (length >= 4 && !strncasecmp(entry, "GPU-", 4)) {
		for (unsigned i = 0; i < n; i++) {
			uuid_text(all[i]->uuid, text, sizeof(text));
			if (strncasecmp(entry, text, least(length, strlen(text))))
				continue;
			if (found >= 0)
				return -1;
			found = (int)i;
		}
		return found;
	}
	number = ordinal(entry, length);
	return number >= 0 && (unsigned long)number < n ? (int)number : -1;
}

unsigned devices_first(const char *list)
{
	long number = -1;

	if (list) {
		list += strspn(list, " \t");
		number = ordinal(list, strcspn(list, ","));
	}
	return number > 0 && number < DEVICES_MAX ? (unsigned)number : 0;
}

CUresult devices_visible(const char *list, const struct paracuda_inventory_device *const *all,
			 unsigned n, unsigned *visible, unsigned *number)
{
	unsigned count = 0;

	*number = 0;
	if (!list) {
		for (; count < n; count++)
			visible[count] = count;
		*number = count;
		return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
	}
	while (*list) {
		size_t blank = strspn(list, " \t");
		size_t length = strcspn(list + blank, ",");
		int device;

		list += blank;
		device = find(list, length, all, n);
		if (device < 0)
			break;
		for (unsigned i = 0; i < count; i++)
			if (visible[i] == (unsigned)device)
				return CUDA_ERROR_INVALID_DEVICE;
		visible[count++] = (unsigned)device;
		list += length;
		if (*list == ',')
			list++;
	}
	*number = count;
	return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult device_order(const char *order)
{
	bool known = !order || !*order || !strcmp(order, "FASTEST_FIRST") ||
		     !strcmp(order, "PCI_BUS_ID");

	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
