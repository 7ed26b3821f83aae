// SPDX-License-Identifier: Apache-2.0

package memory

import "github.com/paracuda/paracuda/gpubackend"

// Connect has kernels of one GPU reach the memory of another, or takes that back, which ends it
// when it was given as often.
func (m *Memory) Connect(from, of int, reaches bool) {
	pair := [2]int{from, of}
	if reaches {
		m.shares[pair]++
	} else if m.shares[pair] > 0 {
		m.shares[pair]--
	}
	m.space.Connect(from, of, m.shares[pair] > 0)
}

// PoolAccess implements gpubackend.Driver. A pool is memory as any other of its GPU: the other one
// reaches all of that.
func (m *Memory) PoolAccess(device, of, access uint64) gpubackend.Result {
	for _, gpu := range []uint64{device, of} {
		if result := m.options.Contexts.CheckDevice(gpu); result != gpubackend.Success {
			return result
		}
	}
	if device == of {
		return gpubackend.InvalidDevice
	}
	m.Connect(int(device), int(of), access != gpubackend.AccessNone)
	return gpubackend.Success
}
