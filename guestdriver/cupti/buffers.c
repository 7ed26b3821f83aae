/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include <string.h>

#include "cupti.h"

static buffer_request *request;
static buffer_complete *complete;

/* The client's buffer that is being filled. A client may bound its records, too. */
static uint8_t *buffer;
static size_t room, used, records_max, records;
static size_t dropped;

void buffers_use(buffer_request *r, buffer_complete *c)
{
	request = r;
	complete = c;
}

void buffers_drop(void)
{
	__atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
}

void buffers_finish(void)
{
	uint8_t *full = buffer;

	buffer = NULL;
	if (full && complete)
		complete(NULL, 0, full, room, used);
}

void buffers_ready(void)
{
	if (buffer)
		return;
	room = used = records = records_max = 0;
	if (request)
		request(&buffer, &room, &records_max);
}

void buffers_write(const void *record, size_t bytes)
{
	if (buffer && (room - used < bytes || (records_max && records == records_max)))
		buffers_finish();
	buffers_ready();
	if (!buffer || room - used < bytes) {
		buffers_drop();
		return;
	}
	memcpy(buffer + used, record, bytes);
	used += bytes;
	records++;
}

static size_t size_of(uint32_t kind)
{
	switch (kind) {
	case KIND_COPY:
		return sizeof(struct copy_record);
	case KIND_FILL:
		return sizeof(struct fill_record);
	case KIND_KERNEL:
	case KIND_KERNEL_ALONE:
		return sizeof(struct kernel_record);
	case KIND_DRIVER:
		return sizeof(struct call_record);
	case KIND_EXTERNAL:
		return sizeof(struct external_record);
	default:
		return 0;
	}
}

EXPORT enum cupti cuptiActivityGetNextRecord(uint8_t *from, size_t valid, void **record)
{
	size_t at = 0;

	if (!from || !record)
		return CUPTI_INVALID_PARAMETER;
	if (*record) {
		size_t size = size_of(*(const uint32_t *)*record);

		if (!size)
			return CUPTI_INVALID_KIND;
		at = (size_t)((uint8_t *)*record - from) + size;
	}
	if (at >= valid)
		return CUPTI_MAX_LIMIT_REACHED;
	*record = from + at;
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out)
{
	(void)context;
	(void)stream;
	if (!out)
		return CUPTI_INVALID_PARAMETER;
	*out = __atomic_exchange_n(&dropped, 0, __ATOMIC_RELAXED);
	return CUPTI_SUCCESS;
}
