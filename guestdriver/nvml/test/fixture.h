/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the tests: one about which all is known, and one about which little
 * is.
 */
#ifndef PARACUDA_NVML_FIXTURE_H
#define PARACUDA_NVML_FIXTURE_H

#include "gpu.h"

static const struct gpu fixture[] = {
	{
		.name = "First",
		.uuid = { 1 },
		.total = 1 << 30,
		.free = 1 << 29,
		.cuda = 13000,
		.bus = 6,
		.major = 9,
		.processors = 132,
		.bus_width = 6144,
		.pci_device = 0x233510de,
		.pci_subsystem = 0x18bf10de,
		.link = { .generation = 4,
			  .width = 8,
			  .max_generation = 5,
			  .max_width = 16,
			  .own_generation = 6,
			  .class = 0x302 },
		.peer = { 0, PEER_ACCESS | PEER_ATOMICS },
		/*
		 * To a switch, down, to the second GPU, and to an unknown
		 * device.
		 */
		.nvlinks = { .count = 4,
			     .common_speed = 26000,
			     .link = { { .version = 6,
					 .capabilities = 5,
					 .remote = 2,
					 .speed = 26562,
					 .bus = 0xa0,
					 .remote_link = 1 },
				       { 0 },
				       { .version = 6,
					 .capabilities = 33,
					 .named = 1,
					 .speed = 25000,
					 .bus = 7,
					 .remote_link = 5 },
				       { .version = 6, .remote = 255 } },
			     .to = { 0, 1 } },
		.fabric = { .cluster = { 1, [15] = 2 },
			    .status = 3,
			    .clique = 4,
			    .health = 5,
			    .state = 6,
			    .summary = 7 },
		.usage_known = 1,
		.usage = { .busy_known = 1,
			   .busy = 37,
			   .holders = 2,
			   .holder = { { .pid = 7, .bytes = 1 << 20 },
				       { .pid = 9, .bytes = 2 << 20 } } },
	},
	{ .name = "Second",
	  .uuid = { 2 },
	  .total = 1 << 20,
	  .cuda = 13000,
	  .bus = 7,
	  .major = 8,
	  .minor = 9 },
};

#endif
