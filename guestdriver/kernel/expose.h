/* SPDX-License-Identifier: GPL-2.0 */
/* What a channel exposes to its worker (expose.c). paracuda.h includes it. */
#ifndef PARACUDA_EXPOSE_H
#define PARACUDA_EXPOSE_H

#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/types.h>

#include "paracuda_wire.h"
#include "pool.h"

struct paracuda_channel;

/* Maps that may wait for their worker to take them, of those that stay. */
#define PARACUDA_MAP_RECORDS	((PAGE_SIZE - sizeof(struct paracuda_event_record)) / \
				 sizeof(struct paracuda_map_record))

/* A page that the worker writes to. */
struct paracuda_records {
	struct paracuda_event_record event;
	struct paracuda_map_record maps[PARACUDA_MAP_RECORDS];
};

struct paracuda_exposure {
	struct paracuda_exposed *root;	/* a page that tells the host where the others are */
	struct paracuda_pool headers;	/* of chains, whose type says what they are */
	struct paracuda_pool lists;	/* of runs */
	struct paracuda_records *records;
	DECLARE_BITMAP(taken, PARACUDA_MAP_RECORDS);	/* of records->maps; under queue->lock */
	bool over;			/* the host has let go of the channel */
};

/* expose.c */
int paracuda_expose_begin(struct paracuda_channel *ch);
void paracuda_expose_show(struct paracuda_channel *ch);
void paracuda_expose_hide(struct paracuda_channel *ch);
void paracuda_expose_end(struct paracuda_channel *ch);
struct paracuda_chain_header *paracuda_header_take(struct paracuda_channel *ch, u32 type);
struct paracuda_map_record *paracuda_record_take(struct paracuda_channel *ch);
void paracuda_record_give(struct paracuda_channel *ch, struct paracuda_map_record *record);

#endif
