/* SPDX-License-Identifier: Apache-2.0 */
#include "external.h"

#include <stddef.h>

#include "cupti.h"

#define DEPTH 128

/*
 * Numbers beyond DEPTH are only counted: the last one that was kept stands for them.
 */
static __thread struct {
	uint64_t number[DEPTH];
	unsigned depth;
} stacks[EXTERNAL_KINDS];

bool external_top(unsigned kind, uint64_t *number)
{
	unsigned depth = stacks[kind].depth;

	if (!depth)
		return false;
	*number = stacks[kind].number[(depth < DEPTH ? depth : DEPTH) - 1];
	return true;
}

EXPORT enum cupti cuptiActivityPushExternalCorrelationId(unsigned kind, uint64_t number)
{
	if (kind >= EXTERNAL_KINDS)
		return CUPTI_INVALID_PARAMETER;
	if (stacks[kind].depth < DEPTH)
		stacks[kind].number[stacks[kind].depth] = number;
	stacks[kind].depth++;
	return CUPTI_SUCCESS;
}

EXPORT enum cupti cuptiActivityPopExternalCorrelationId(unsigned kind, uint64_t *number)
{
	uint64_t top;

	if (kind >= EXTERNAL_KINDS)
		return CUPTI_INVALID_PARAMETER;
	if (!external_top(kind, &top))
		return CUPTI_QUEUE_EMPTY;
	stacks[kind].depth--;
	if (number)
		*number = top;
	return CUPTI_SUCCESS;
}
