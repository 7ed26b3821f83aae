/* SPDX-License-Identifier: Apache-2.0 */
/* Records of work that is over. */
#include <unistd.h>

#include "buffers.h"
#include "clock.h"
#include "cupti.h"
#include "work.h"

/*
 * cuLaunchKernel's number among CUPTI's numbers of driver functions. All ways to launch one
 * kernel count as this function.
 */
#define LAUNCH_KERNEL 307

/* CUPTI's words for copies, by where their two sides lie. */
enum way { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 8, ON_HOST = 9 };

static enum way way_of(const struct paracuda_work *w)
{
	if (w->from == PARACUDA_DEVICE)
		return w->to == PARACUDA_DEVICE ? ON_DEVICE : TO_HOST;
	return w->to == PARACUDA_DEVICE ? TO_DEVICE : ON_HOST;
}

static void kernel(const struct work *w)
{
	struct kernel_record r = {
		.kind = w->kinds & 1ull << KIND_KERNEL ? KIND_KERNEL : KIND_KERNEL_ALONE,
		.registers = (uint16_t)w->registers,
		.start = clock_client(w->began),
		.end = clock_client(w->ended),
		.device = (uint32_t)w->place->device,
		.context = w->place->number,
		.stream = w->stream,
		.shared_static = w->shared,
		.shared_dynamic = (int32_t)w->given.shared,
		.local = (uint32_t)w->local,
		.correlation = w->correlation,
		.number = w->correlation,
		.name = w->name,
	};

	for (int i = 0; i < 3; i++) {
		r.grid[i] = (int32_t)w->given.grid[i];
		r.block[i] = (int32_t)w->given.block[i];
	}
	r.completed = r.end;
	buffers_write(&r, sizeof(r));
}

static void copy(const struct work *w)
{
	struct copy_record r = {
		.kind = KIND_COPY,
		.way = (uint8_t)way_of(&w->given),
		.from = (uint8_t)w->given.from,
		.to = (uint8_t)w->given.to,
		.bytes = w->given.bytes,
		.start = clock_client(w->began),
		.end = clock_client(w->ended),
		.device = (uint32_t)w->place->device,
		.context = w->place->number,
		.stream = w->stream,
		.correlation = w->correlation,
	};

	buffers_write(&r, sizeof(r));
}

static void fill(const struct work *w)
{
	struct fill_record r = {
		.kind = KIND_FILL,
		.value = w->given.value,
		.bytes = w->given.bytes,
		.start = clock_client(w->began),
		.end = clock_client(w->ended),
		.device = (uint32_t)w->place->device,
		.context = w->place->number,
		.stream = w->stream,
		.correlation = w->correlation,
		.memory = (uint16_t)w->given.to,
	};

	buffers_write(&r, sizeof(r));
}

static void call(const struct work *w)
{
	struct call_record r = {
		.kind = KIND_DRIVER,
		.function = LAUNCH_KERNEL,
		.start = clock_client(w->called),
		.end = clock_client(w->returned),
		.process = (uint32_t)getpid(),
		.thread = w->thread,
		.correlation = w->correlation,
	};

	buffers_write(&r, sizeof(r));
}

/* What ties the work to the client's own numbers. */
static void externals(const struct work *w)
{
	for (uint32_t kind = 0; kind < EXTERNAL_KINDS; kind++) {
		struct external_record r = {
			.kind = KIND_EXTERNAL,
			.external = kind,
			.number = w->external[kind],
			.correlation = w->correlation,
		};

		if (w->externals & 1u << kind)
			buffers_write(&r, sizeof(r));
	}
}

void work_record(const struct work *w)
{
	if (w->kinds & 1ull << KIND_EXTERNAL)
		externals(w);
	if (w->given.kind == PARACUDA_KERNEL && w->kinds & 1ull << KIND_DRIVER)
		call(w);
	switch (w->given.kind) {
	case PARACUDA_COPY:
		copy(w);
		break;
	case PARACUDA_FILL:
		fill(w);
		break;
	case PARACUDA_KERNEL:
	case PARACUDA_GRAPH:
		if (w->kinds & KINDS_OF_KERNELS)
			kernel(w);
	}
}
