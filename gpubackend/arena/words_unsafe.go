// SPDX-License-Identifier: Apache-2.0

package arena

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/paracuda/paracuda/gpubackend/memword"
)

func (a *Arena) at(offset int) *uint32 { return memword.Of32(a.mem[offset:]) }

func (a *Arena) load(offset int) uint32 { return atomic.LoadUint32(a.at(offset)) }

func (a *Arena) store(offset int, v uint32) { atomic.StoreUint32(a.at(offset), v) }

func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }

func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }

// copyWords copies the argument words that fit: each is read from the guest's memory once.
func (c *Command) copyWords() {
	c.N = min(len(c.Body)/8, len(c.Words))
	for i := range c.N {
		c.Words[i] = binary.LittleEndian.Uint64(c.Body[8*i:])
	}
}

// Address is the address of b, which is part of the arena, for code that hands it to the driver.
func (a *Arena) Address(b []byte) uint64 {
	// SAFETY: only the number is taken; the mapping lives as long as the worker.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
