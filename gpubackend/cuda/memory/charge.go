// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/paracuda/paracuda/gpubackend/ledger"

// OfKind counts what others take of memory, as one kind.
type OfKind struct {
	*Memory
	kind ledger.Kind
}

// As counts memory as that kind.
func (m *Memory) As(k ledger.Kind) OfKind { return OfKind{m, k} }

// Charge counts memory of a GPU that others take, if there is room, waiting for what was freed.
func (s OfKind) Charge(gpu int, bytes uint64) bool {
	return s.ChargeNow(gpu, bytes) || s.contexts.Usable() && s.Reclaim() && s.ChargeNow(gpu, bytes)
}

// ChargeNow counts memory if there is room.
func (s OfKind) ChargeNow(gpu int, bytes uint64) bool {
	return s.heaps[gpu].Charge(s.kind, bytes) == nil
}

// HasRoom says whether Charge would succeed.
func (s OfKind) HasRoom(gpu int, bytes uint64) bool {
	if !s.Charge(gpu, bytes) {
		return false
	}
	s.Uncharge(gpu, bytes)
	return true
}

// HasRoomNow says whether ChargeNow would succeed.
func (s OfKind) HasRoomNow(gpu int, bytes uint64) bool {
	if !s.ChargeNow(gpu, bytes) {
		return false
	}
	s.Uncharge(gpu, bytes)
	return true
}

// Uncharge gives back what was counted.
func (s OfKind) Uncharge(gpu int, bytes uint64) { s.heaps[gpu].Uncharge(s.kind, bytes) }

// Recharge counts now bytes in place of had, whether or not there is room.
func (s OfKind) Recharge(gpu int, had, now uint64) { s.heaps[gpu].Recharge(s.kind, had, now) }

// ContextBytes is what a context counts for until one has been measured: an H100's takes 526 MiB.
const ContextBytes = 526 << 20

// TakeContext counts a context that is about to begin, if there is room for it. Where nobody shares
// the GPU it counts for nothing.
func (m *Memory) TakeContext(gpu int) (bytes uint64, ok bool) {
	a := m.heaps[gpu].Account()
	if a == nil {
		return 0, true
	}
	bytes = a.Context(ContextBytes)
	return bytes, m.As(ledger.Contexts).ChargeNow(gpu, bytes)
}

// GiveContext takes a context out of the count.
func (m *Memory) GiveContext(gpu int, bytes uint64) { m.As(ledger.Contexts).Uncharge(gpu, bytes) }

// Over says whether more is counted than is allowed.
func (m *Memory) Over(gpu int) bool { return m.heaps[gpu].Over() }

// Used is what counts for this process.
func (m *Memory) Used(gpu int) uint64 { return m.heaps[gpu].Used() }

// Allocations is how many there are of the heap.
func (m *Memory) Allocations(gpu int) int { return m.heaps[gpu].Len() }
