// SPDX-License-Identifier: Apache-2.0

package devmem

// Charge counts memory that is not the heap's against its limit, giving up the spare piece if need be.
func (h *Heap) Charge(bytes uint64) error {
	if bytes > h.limit || h.mapped > h.limit-bytes {
		h.Trim()
		if bytes > h.limit || h.mapped > h.limit-bytes {
			return ErrOutOfMemory
		}
	}
	h.mapped += bytes
	return nil
}

// Recharge counts other memory as so much more or less than before. It is there already: the limit isn't asked.
func (h *Heap) Recharge(from, to uint64) { h.mapped += to - from }

// Over says whether more is counted than the limit allows.
func (h *Heap) Over() bool { return h.mapped > h.limit }

// Uncharge takes back what Charge counted.
func (h *Heap) Uncharge(bytes uint64) { h.mapped -= bytes }

// Piece returns the mapped piece that holds addr.
func (h *Heap) Piece(addr uint64) (base, size uint64, ok bool) {
	n := h.pieces.floor(key{hi: addr})
	if n == nil || addr-n.key.hi >= n.value.size {
		return 0, 0, false
	}
	return n.key.hi, n.value.size, true
}
