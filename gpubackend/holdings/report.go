// SPDX-License-Identifier: Apache-2.0

package holdings

import (
	"slices"

	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// GPU is what a VM has of one GPU.
type GPU struct {
	Bound uint64            `json:"bound,omitempty"` // 0: none
	Used  uint64            `json:"used"`
	Kinds map[string]uint64 `json:"kinds"`
	Mover map[string]uint64 `json:"mover,omitempty"` // what of that the mover has
	Warm  map[string]uint64 `json:"warm,omitempty"`  // what workers have that are kept warm
}

// known are the GPUs that the VM uses, in the ledger's order.
func (h *Holdings) known() []*ledger.GPU {
	if h.audit == nil {
		return nil
	}
	return h.audit.Known()
}

// GPUs reports what the VM has of each GPU that it uses.
func (h *Holdings) GPUs() (list []GPU) {
	for _, g := range h.known() {
		var all, warm ledger.Holding
		for entry := range ledger.Entries {
			held := g.Holding(entry)
			all.Add(held)
			if entry >= ledger.Warm {
				warm.Add(held)
			}
		}
		mover := g.Holding(ledger.Mover)
		list = append(list, GPU{
			Bound: h.bound, Used: all.Sum(), Kinds: all.Map(), Mover: mover.Map(), Warm: warm.Map(),
		})
	}
	return list
}

// On is what the VM has on each of these GPUs, which the ledger's ids name; nil if nobody counts.
func (h *Holdings) On(ids []uint64) []uint64 {
	if h.audit == nil || len(ids) == 0 {
		return nil
	}
	on := make([]uint64, len(ids))
	for _, g := range h.known() {
		i := slices.Index(ids, g.ID())
		for entry := 0; i >= 0 && entry < ledger.Entries; entry++ {
			held := g.Holding(entry)
			on[i] += held.Sum()
		}
	}
	return on
}

// All is what the VM has of all GPUs together, by kind; nil if nobody counts.
func (h *Holdings) All() map[string]uint64 {
	if h.audit == nil {
		return nil
	}
	var all ledger.Holding
	for _, g := range h.known() {
		for entry := range ledger.Entries {
			all.Add(g.Holding(entry))
		}
	}
	return all.Map()
}

// Of is what a process has of all GPUs together; nil if nobody counts.
func (h *Holdings) Of(entry int) map[string]uint64 {
	if h.audit == nil {
		return nil
	}
	var all ledger.Holding
	for _, g := range h.known() {
		all.Add(g.Holding(entry))
	}
	return all.Map()
}

// OfEach is what a process has of each GPU, by the ledger's ids of them; nil if nobody counts.
func (h *Holdings) OfEach(entry int) map[uint64]uint64 {
	if h.audit == nil {
		return nil
	}
	of := map[uint64]uint64{}
	for _, g := range h.known() {
		held := g.Holding(entry)
		of[g.ID()] = held.Sum()
	}
	return of
}
