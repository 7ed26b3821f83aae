// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// PlaceVariables takes memory of the window for variables of code. It needs no context.
func (m *Memory) PlaceVariables(gpu int, bytes uint64) (uint64, gpubackend.Result) {
	if gpu >= len(m.heaps) {
		return 0, gpubackend.NotInitialized
	}
	addr, err := m.heaps[gpu].AllocAs(ledger.Code, bytes)
	if err != nil {
		return 0, gpubackend.OutOfMemory
	}
	m.variables[addr] = struct{}{}
	return addr, gpubackend.Success
}

// FreeVariables gives it back when the current context is idle, or another if none is current.
func (m *Memory) FreeVariables(addr uint64) {
	gpu := m.gpuAt(addr)
	if _, ok := m.variables[addr]; !ok || gpu < 0 {
		return
	}
	delete(m.variables, addr)
	c := m.contexts.Current()
	if c == nil {
		c = m.contexts.Any()
	}
	if c == nil || m.contexts.Idle() {
		_ = m.heaps[gpu].Free(addr) // was allocated
		return
	}
	m.freed[c] = append(m.freed[c], freed{gpu, addr})
}

// PlaceNext says where the memory is that is taken next, while a layout is restored.
func (m *Memory) PlaceNext(addr uint64) error { return m.restorer.Next(addr) }
