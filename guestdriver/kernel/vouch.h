/* SPDX-License-Identifier: GPL-2.0 */
/* Vouchers for the pages of a channel's maps (vouch.c). paracuda.h includes it. */
#ifndef PARACUDA_VOUCH_H
#define PARACUDA_VOUCH_H

#include <linux/bitmap.h>
#include <linux/idr.h>
#include <linux/types.h>

#include "paracuda_wire.h"

struct paracuda_channel;
struct paracuda_token;

/* So many vouchers are given out without a lock: as many maps as most programs have. */
#define PARACUDA_FEW_VOUCHERS	PARACUDA_VOUCHERS_PER_PAGE

/* What the mover may copy for a channel. */
struct paracuda_vouchers {
	u64 *directory;			/* physical addresses of pages of vouchers */
	DECLARE_BITMAP(few, PARACUDA_FEW_VOUCHERS);	/* which of the first are taken */
	struct ida numbers;		/* of the others */
	bool over;			/* the host has let go of the channel */
};

int paracuda_vouchers_begin(struct paracuda_channel *ch);
void paracuda_vouchers_show(struct paracuda_channel *ch);
void paracuda_vouchers_hide(struct paracuda_channel *ch);
void paracuda_vouchers_end(struct paracuda_channel *ch);
int paracuda_vouch(struct paracuda_channel *ch, struct paracuda_token *map);
bool paracuda_unvouch(struct paracuda_channel *ch, struct paracuda_token *map);

#endif
