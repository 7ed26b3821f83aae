// SPDX-License-Identifier: Apache-2.0

package devmem

import "github.com/paracuda/paracuda/gpubackend/ledger"

// Charge counts memory that is not the heap's against its limit and its account, giving up the
// empty segment if need be.
func (h *Heap) Charge(k ledger.Kind, bytes uint64) error {
	if h.take(k, bytes) || h.Trim() && h.take(k, bytes) {
		return nil
	}
	return ErrOutOfMemory
}

// take counts memory if there is room.
func (h *Heap) take(k ledger.Kind, bytes uint64) bool {
	if bytes > h.limit || h.mapped > h.limit-bytes || !h.account.Take(k, bytes) {
		return false
	}
	h.mapped += bytes
	return true
}

// Recharge counts other memory as more or less than before. It is there already, so the limit isn't
// checked.
func (h *Heap) Recharge(k ledger.Kind, from, to uint64) {
	h.mapped += to - from
	if to > from {
		h.account.Force(k, to-from)
	} else {
		h.account.Give(k, from-to)
	}
}

// Over says whether more is counted than the limit or the account allows.
func (h *Heap) Over() bool { return h.mapped > h.limit || h.account.Over() }

// Uncharge takes back what Charge counted.
func (h *Heap) Uncharge(k ledger.Kind, bytes uint64) {
	h.mapped -= bytes
	h.account.Give(k, bytes)
}

// Segment returns the mapped segment that holds addr.
func (h *Heap) Segment(addr uint64) (base, size uint64, ok bool) {
	n := h.segments.floor(key{hi: addr})
	if n == nil || addr-n.key.hi >= n.value.size {
		return 0, 0, false
	}
	return n.key.hi, n.value.size, true
}
