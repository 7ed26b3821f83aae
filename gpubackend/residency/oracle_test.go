// SPDX-License-Identifier: Apache-2.0

package residency

// victims checks that the VMs that are ordered out together are those that the rules say.
func (h *host) victims(orders []Order) {
	var list []*vm
	for _, o := range orders {
		if o.Kind == Out {
			list = append(list, h.s.vms[o.VM])
		}
	}
	if len(list) == 0 {
		return
	}
	next := h.s.next
	for _, v := range list {
		if next != nil && !v.idle() && v.charged <= next.charged {
			h.t.Fatalf("at %v: %d goes for %d, which was charged more", h.now, v.id, next.id)
		}
		for _, w := range h.s.all { // none stays that had to go before it
			if w.phase == in && w != next && w.mayLeave(h.now) && w.moved() > 0 && before(w, v) &&
				(next == nil || w.yields(h.now, next)) {
				h.t.Fatalf("at %v: %d goes and %d stays", h.now, v.id, w.id)
			}
		}
	}
	h.enough(list, next)
}

// enough checks that the VMs that go make enough room, and wouldn't without the last of them.
func (h *host) enough(list []*vm, next *vm) {
	var used, free uint64
	for _, v := range h.s.all {
		used += v.taken()
	}
	if next != nil {
		used += next.needs() - min(next.needs(), next.taken())
	}
	for i, v := range list {
		if used-free <= h.total {
			h.t.Fatalf("at %v: %d go, and %d were enough", h.now, len(list), i)
		}
		free += v.taken() - min(v.taken(), v.told.Stays)
	}
	if used-free > h.total {
		h.t.Fatalf("at %v: %d go, and that isn't enough", h.now, len(list))
	}
}

// before says whether a goes rather than b.
func before(a, b *vm) bool {
	if a.idle() != b.idle() {
		return a.idle()
	}
	return a.charged > b.charged
}
