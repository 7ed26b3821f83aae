/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA_VISIBLE_DEVICES in all forms, as CUDA's programming guide says and driver 580 does. */
#define _GNU_SOURCE
#include <string.h>

#include "check.h"
#include "devices/device.h"

enum { MOST = 4 };

static const struct {
	const char *list;
	CUresult result;
	unsigned count, gpu[MOST];
} wants[] = {
	/* Not set, empty, and what names nothing. */
	{ NULL, CUDA_SUCCESS, 4, { 0, 1, 2, 3 } },
	{ "", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ " ", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "-1", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "4", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "NoDevFiles", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ ",0", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	/* Indices, in the order of the list. */
	{ "0", CUDA_SUCCESS, 1, { 0 } },
	{ "3,1", CUDA_SUCCESS, 2, { 3, 1 } },
	{ " 2 , 0", CUDA_SUCCESS, 2, { 2, 0 } },
	{ "2,", CUDA_SUCCESS, 1, { 2 } },
	/* What names nothing ends the list. */
	{ "1,-1,0", CUDA_SUCCESS, 1, { 1 } },
	{ "1,9,0", CUDA_SUCCESS, 1, { 1 } },
	{ "1,x,0", CUDA_SUCCESS, 1, { 1 } },
	{ "1,,0", CUDA_SUCCESS, 1, { 1 } },
	{ "99999999999999999999", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	/* UUIDs, whole, and as much of them as one has alone; small letters or capitals. */
	{ "GPU-00000000-0000-0000-0000-00000000000a", CUDA_SUCCESS, 1, { 0 } },
	{ "GPU-01", CUDA_SUCCESS, 1, { 1 } },
	{ "gpu-AB000000", CUDA_SUCCESS, 1, { 2 } },
	{ "GPU-ab01,GPU-01,0", CUDA_SUCCESS, 3, { 3, 1, 0 } },
	{ "GPU-ab", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "GPU-", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "GPU-02", CUDA_ERROR_NO_DEVICE, 0, { 0 } },
	{ "1,GPU-ab", CUDA_SUCCESS, 1, { 1 } },
	/* Named twice, in the same form or not: an error. */
	{ "1,1", CUDA_ERROR_INVALID_DEVICE, 0, { 0 } },
	{ "1,GPU-01", CUDA_ERROR_INVALID_DEVICE, 0, { 0 } },
	/* Behind the end of the list nothing counts. */
	{ "1,9,1", CUDA_SUCCESS, 1, { 1 } },
};

int main(void)
{
	static struct paracuda_inventory_device d[MOST];
	const struct paracuda_inventory_device *all[MOST] = { &d[0], &d[1], &d[2], &d[3] };

	d[0].uuid[15] = 0x0a;
	d[1].uuid[0] = 0x01;
	d[2].uuid[0] = d[3].uuid[0] = 0xab;
	d[3].uuid[1] = 0x01;
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		unsigned gpu[MOST] = { 0 }, count = 77;

		CHECK_IS(wants[i].result, devices_visible(wants[i].list, all, MOST, gpu, &count));
		CHECK_IS(wants[i].count, count);
		for (unsigned k = 0; k < count; k++)
			CHECK_IS(wants[i].gpu[k], gpu[k]);
		/* What is said before the devices are known is right, or 0 for a UUID. */
		if (count && wants[i].list && !strcasestr(wants[i].list, "GPU-"))
			CHECK_IS(gpu[0], devices_first(wants[i].list));
	}
	CHECK_IS(0, devices_first(NULL));
	CHECK_IS(0, devices_first(""));
	CHECK_IS(0, devices_first("-1"));
	CHECK_IS(0, devices_first("GPU-01"));
	CHECK_IS(63, devices_first(" 63 ,0"));
	CHECK_IS(0, devices_first("64"));
	CHECK_IS(0, devices_first("99999999999999999999"));
	return 0;
}
