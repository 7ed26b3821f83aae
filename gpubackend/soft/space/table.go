// SPDX-License-Identifier: Apache-2.0

package space

import (
	"slices"
	"sort"
)

// A region is a range of addresses that copies, and kernels of some GPUs, may reach.
type region struct {
	base, end   uint64
	read, write gpus
}

// gpus is a set of GPUs, a bit for each.
type gpus uint64

// everyone is all GPUs.
const everyone = ^gpus(0)

// only is the set of one GPU.
func only(gpu int) gpus { return 1 << gpu }

// A table is an immutable set of regions, sorted by address, none overlapping another.
type table struct{ regions []region }

// index returns the position of the first region that ends after addr.
func (t *table) index(addr uint64) int {
	return sort.Search(len(t.regions), func(i int) bool { return t.regions[i].end > addr })
}

// lookup returns the region that holds addr.
func (t *table) lookup(addr uint64) (region, bool) {
	i := t.index(addr)
	if i == len(t.regions) || t.regions[i].base > addr {
		return region{}, false
	}
	return t.regions[i], true
}

// covers tells whether the whole range may be read, or written, by one of some GPUs.
func (t *table) covers(addr, bytes uint64, write bool, by gpus) bool {
	end := addr + bytes
	if end < addr {
		return false
	}
	for i := t.index(addr); addr < end; i++ {
		if i == len(t.regions) || t.regions[i].base > addr {
			return false
		}
		if r := &t.regions[i]; !write && r.read&by == 0 || write && r.write&by == 0 {
			return false
		}
		addr = t.regions[i].end
	}
	return true
}

// overlaps tells whether any address of the range is in the table.
func (t *table) overlaps(base, end uint64) bool {
	i := t.index(base)
	return i < len(t.regions) && t.regions[i].base < end
}

// with returns the table and one more region.
func (t *table) with(r region) *table {
	return &table{slices.Insert(slices.Clone(t.regions), t.index(r.base), r)}
}

// without returns the table without the region at base.
func (t *table) without(base uint64) *table {
	return &table{slices.DeleteFunc(slices.Clone(t.regions),
		func(r region) bool { return r.base == base })}
}

// changed returns the table with a change made to the regions in a range.
func (t *table) changed(base, end uint64, change func(*region)) *table {
	regions := slices.Clone(t.regions)
	for i := t.index(base); i < len(regions) && regions[i].base < end; i++ {
		change(&regions[i])
	}
	return &table{regions}
}
