// SPDX-License-Identifier: Apache-2.0

package memory

// Charge counts memory of a GPU that others take, if there is room, waiting for what was freed.
func (m *Memory) Charge(gpu int, bytes uint64) bool {
	return m.ChargeNow(gpu, bytes) || m.contexts.Usable() && m.Reclaim() && m.ChargeNow(gpu, bytes)
}

// ChargeNow counts memory if there is room.
func (m *Memory) ChargeNow(gpu int, bytes uint64) bool { return m.heaps[gpu].Charge(bytes) == nil }

// HasRoom says whether Charge would.
func (m *Memory) HasRoom(gpu int, bytes uint64) bool {
	if !m.Charge(gpu, bytes) {
		return false
	}
	m.Uncharge(gpu, bytes)
	return true
}

// HasRoomNow says whether ChargeNow would.
func (m *Memory) HasRoomNow(gpu int, bytes uint64) bool {
	if !m.ChargeNow(gpu, bytes) {
		return false
	}
	m.Uncharge(gpu, bytes)
	return true
}

// Uncharge gives back what was counted.
func (m *Memory) Uncharge(gpu int, bytes uint64) { m.heaps[gpu].Uncharge(bytes) }

// Recharge counts now instead of had, whether or not there is room.
func (m *Memory) Recharge(gpu int, had, now uint64) { m.heaps[gpu].Recharge(had, now) }

// Over says whether more counts than there may be.
func (m *Memory) Over(gpu int) bool { return m.heaps[gpu].Over() }

// Used is what counts.
func (m *Memory) Used(gpu int) uint64 { return m.heaps[gpu].Used() }

// Allocations is how many there are of the heap.
func (m *Memory) Allocations(gpu int) int { return m.heaps[gpu].Len() }
