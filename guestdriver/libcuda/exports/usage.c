/* SPDX-License-Identifier: Apache-2.0 */
#include "exports/usage.h"

#include <string.h>

#include "base/state.h"
#include "context/zz_generated_commands.h"
#include "devices/device.h"

CUresult device_usage(struct paracuda_usage *usage, CUdevice dev)
{
	struct answer_USAGE answer = { 0 };

	ENTER();
	if (!usage)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(usage, 0, sizeof(*usage));
	do {
		struct paracuda_holder *h = &usage->holder[usage->holders];
		CUresult result = call_USAGE((uint64_t)devices.host[dev], answer.next, &answer);

		if (result)
			return result;
		usage->busy_known = answer.busy != 0;
		usage->busy = answer.busy ? (uint32_t)answer.busy - 1 : 0;
		if (!answer.next)
			break;
		h->pid = (uint32_t)answer.pid;
		h->bytes = answer.bytes;
	} while (++usage->holders < PARACUDA_HOLDERS_MAX);
	return CUDA_SUCCESS;
}
