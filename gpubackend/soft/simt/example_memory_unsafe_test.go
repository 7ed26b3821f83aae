// SPDX-License-Identifier: Apache-2.0

package simt_test

import (
	"syscall"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
)

// memory is a page of device memory for the example.
type memory struct {
	bytes []byte
	base  uint64
}

func newMemory() *memory {
	bytes, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	// SAFETY: only the address is taken, of a mapping that stays.
	return &memory{bytes, uint64(uintptr(unsafe.Pointer(&bytes[0])))}
}

func (m *memory) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	end = m.base + uint64(len(m.bytes))
	return m.base, end, true, addr >= m.base && addr < end
}

// place gives each global an address.
func (m *memory) place(globals []decoded.Global) map[string]uint64 {
	places, next := make(map[string]uint64), m.base
	for _, g := range globals {
		next = (next + uint64(g.Align) - 1) &^ (uint64(g.Align) - 1)
		places[g.Name] = next
		next += g.Size
	}
	return places
}

// fill copies the globals' initial contents to their places.
func (m *memory) fill(p *decoded.Program, places map[string]uint64) {
	for _, g := range p.Globals() {
		at := places[g.Name] - m.base
		if err := p.Fill(&g, m.bytes[at:at+g.Size]); err != nil {
			panic(err)
		}
	}
}
