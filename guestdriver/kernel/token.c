// SPDX-License-Identifier: GPL-2.0
/* Chains of a channel queue: a header, and lists of runs. */

#include <linux/io.h>

#include "paracuda.h"

/* -ENOMEM: no memory for the header. */
int paracuda_token_init(struct paracuda_channel *ch, struct paracuda_token *chain, u32 type)
{
	BUILD_BUG_ON(PARACUDA_RUNS_PER_LIST * sizeof(struct paracuda_run) > PAGE_SIZE);
	BUILD_BUG_ON(PARACUDA_FEW * sizeof(struct paracuda_run) > 256);
	BUILD_BUG_ON(PARACUDA_LISTS * sizeof(u64) > 512);

	memset(chain, 0, sizeof(*chain));
	INIT_LIST_HEAD(&chain->node);
	chain->type = type;
	chain->header = paracuda_header_take(ch, type);
	return chain->header ? 0 : -ENOMEM;
}

static struct paracuda_run *paracuda_token_list(struct paracuda_token *chain, unsigned int i)
{
	u64 *table, address = chain->header->list;

	if (chain->lists > 1) {
		table = phys_to_virt(address);
		address = table[i];
	}
	return phys_to_virt(address);
}

struct paracuda_run *paracuda_token_run(struct paracuda_token *chain, unsigned int i)
{
	return &paracuda_token_list(chain, i / PARACUDA_RUNS_PER_LIST)[i % PARACUDA_RUNS_PER_LIST];
}

/* Makes a list for more runs; before the second one also a table of lists. */
static int paracuda_token_grow(struct paracuda_channel *ch, struct paracuda_token *chain)
{
	bool few = chain->pinned && chain->pinned <= PARACUDA_FEW;
	struct paracuda_pool *pool = &ch->exposure.lists;
	void *list;
	u64 *table;

	list = paracuda_pool_take(pool, few ? PARACUDA_PIECE_256 : PARACUDA_PIECE_PAGE);
	if (!list)
		return -ENOMEM;
	if (!chain->lists) {
		chain->header->list = virt_to_phys(list);
		chain->lists = 1;
		return 0;
	}
	if (chain->lists == 1) {
		table = paracuda_pool_take(pool, PARACUDA_PIECE_512);
		if (!table) {
			paracuda_pool_give(pool, list);
			return -ENOMEM;
		}
		table[0] = chain->header->list;
		chain->header->list = virt_to_phys(table);
	}
	table = phys_to_virt(chain->header->list);
	table[chain->lists++] = virt_to_phys(list);
	return 0;
}

/* Appends a page: to the last run, if it follows that. -EINVAL: too many runs. */
int paracuda_token_append(struct paracuda_channel *ch, struct paracuda_token *chain,
			  struct page *page)
{
	struct paracuda_run *run;
	u64 address = page_to_phys(page);
	int err;

	if (chain->runs) {
		run = paracuda_token_run(chain, chain->runs - 1);
		if (run->address + run->bytes == address) {
			run->bytes += PAGE_SIZE;
			return 0;
		}
	}
	if (chain->runs == PARACUDA_RUNS_PER_MAP)
		return -EINVAL;
	if (chain->runs == chain->lists * PARACUDA_RUNS_PER_LIST) {
		err = paracuda_token_grow(ch, chain);
		if (err)
			return err;
	}
	run = paracuda_token_run(chain, chain->runs++);
	run->address = address;
	run->bytes = PAGE_SIZE;
	chain->header->runs = chain->runs;
	return 0;
}

/* Nobody else has the chain any more. */
void paracuda_token_end(struct paracuda_channel *ch, struct paracuda_token *chain)
{
	struct paracuda_pool *pool = &ch->exposure.lists;
	unsigned int i;

	for (i = 0; i < chain->lists; i++)
		paracuda_pool_give(pool, paracuda_token_list(chain, i));
	if (chain->lists > 1)
		paracuda_pool_give(pool, phys_to_virt(chain->header->list));
	chain->lists = 0;
	chain->runs = 0;
	if (chain->header)
		paracuda_pool_give(&ch->exposure.headers, chain->header);
	chain->header = NULL;
}
