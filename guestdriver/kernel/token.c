// SPDX-License-Identifier: GPL-2.0
/* Chains of a channel queue: a header, and a list of runs in pages of its own. */

#include <linux/io.h>
#include <linux/slab.h>

#include "paracuda.h"

void paracuda_token_init(struct paracuda_token *chain, u32 type)
{
	BUILD_BUG_ON(sizeof(struct paracuda_chain_header) != PARACUDA_SIZEOF_CHAIN_HEADER);
	BUILD_BUG_ON(sizeof(struct paracuda_event_record) != PARACUDA_SIZEOF_EVENT_RECORD);
	BUILD_BUG_ON(sizeof(struct paracuda_map_record) != PARACUDA_SIZEOF_MAP_RECORD);
	BUILD_BUG_ON(PARACUDA_RUNS_PER_LIST * sizeof(struct paracuda_run) > PAGE_SIZE);

	memset(chain, 0, sizeof(*chain));
	INIT_LIST_HEAD(&chain->node);
	chain->type = type;
	chain->header.type = type;
}

struct paracuda_run *paracuda_token_run(struct paracuda_token *chain, unsigned int i)
{
	struct paracuda_run *list = phys_to_virt(chain->list[i / PARACUDA_RUNS_PER_LIST]);

	return &list[i % PARACUDA_RUNS_PER_LIST];
}

/* A list for more runs: the chain's own if all pages fit there. */
static struct paracuda_run *paracuda_token_list(struct paracuda_token *chain)
{
	if (!chain->lists && chain->pinned && chain->pinned <= PARACUDA_FEW)
		return chain->few;
	return (struct paracuda_run *)__get_free_page(GFP_KERNEL_ACCOUNT);
}

/* Appends a page: to the last run, if it follows that. -EINVAL: too many runs. */
int paracuda_token_append(struct paracuda_token *chain, struct page *page)
{
	struct paracuda_run *run;
	u64 address = page_to_phys(page);

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
		run = paracuda_token_list(chain);
		if (!run)
			return -ENOMEM;
		chain->list[chain->lists++] = virt_to_phys(run);
	}
	run = paracuda_token_run(chain, chain->runs++);
	run->address = address;
	run->bytes = PAGE_SIZE;
	return 0;
}

void paracuda_token_free_lists(struct paracuda_token *chain)
{
	while (chain->lists) {
		struct paracuda_run *list = phys_to_virt(chain->list[--chain->lists]);

		if (list != chain->few)
			free_page((unsigned long)list);
	}
	chain->runs = 0;
}

/*
 * The scatterlist of a chain: *out entries for header and runs, and *in more for the record of a
 * map that stays. The caller frees it. The pages of lists stay the chain's.
 */
struct scatterlist *paracuda_token_sg(struct paracuda_token *chain, unsigned int *out,
				      unsigned int *in)
{
	struct scatterlist *sg;
	unsigned int i, left = chain->runs;

	*out = 1 + chain->lists;
	*in = paracuda_stays(chain);
	sg = kmalloc_array(*out + *in, sizeof(*sg), GFP_KERNEL);
	if (!sg)
		return NULL;

	chain->header.runs = chain->runs;
	sg_init_table(sg, *out + *in);
	sg_set_buf(&sg[0], &chain->header, sizeof(chain->header));
	for (i = 0; i < chain->lists; i++) {
		unsigned int n = min_t(unsigned int, left, PARACUDA_RUNS_PER_LIST);

		sg_set_buf(&sg[1 + i], phys_to_virt(chain->list[i]),
			   n * sizeof(struct paracuda_run));
		left -= n;
	}
	if (*in)
		sg_set_buf(&sg[*out], &chain->record, sizeof(chain->record));
	return sg;
}
