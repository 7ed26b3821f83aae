// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/devmem/movable"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Pieces lists the pieces of this process's allocations on GPUs with a context that can copy them.
func (m *Memory) Pieces() []gpubackend.Piece {
	for c := range m.freed {
		m.takeBack(c) // everything is idle
	}
	return m.pieces(movable.Pieces)
}

// PresentPieces implements gpubackend.Driver.
func (m *Memory) PresentPieces() []gpubackend.Piece { return m.pieces(movable.Present) }

func (m *Memory) pieces(
	of func(*devmem.Heap, func(addr uint64) bool) []gpubackend.Piece,
) (list []gpubackend.Piece) {
	for i := range m.heaps {
		if m.copier(i) == nil {
			continue
		}
		made := func(addr uint64) bool { return m.heaps[i].backing.created[addr] != nil }
		list = append(list, of(m.heaps[i].Heap, made)...)
	}
	return list
}

// copier is a context of a GPU that can copy, or nil.
func (m *Memory) copier(gpu int) *contexts.Context {
	for c := range m.contexts.All() {
		if c.GPU == gpu && lives(c) {
			return c
		}
	}
	return nil
}

// lives says whether a context can be given work, and isn't a green one.
func lives(c *contexts.Context) bool {
	return c.Base == nil && c.Exists() && c.Dead() == gpubackend.Success
}

// SavePieces copies them through pinned memory.
func (m *Memory) SavePieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.copyEach(list, image, (*pump).out)
}

// SumPieces makes each GPU compute the checksums of its memory.
func (m *Memory) SumPieces(
	key uint64, list []gpubackend.Piece, sums []uint64,
) gpubackend.Result {
	if uint64(len(sums))*sectorsum.Bytes != gpubackend.PieceBytes(list) {
		return gpubackend.InvalidValue
	}
	for _, p := range list {
		if p.Bytes%sectorsum.Bytes != 0 {
			return gpubackend.InvalidValue
		}
	}
	return m.eachGPU(list, func(c *contexts.Context, list []gpubackend.Piece) gpubackend.Result {
		s, r := m.summerFor(c)
		if r != gpubackend.Success {
			return r
		}
		n := gpubackend.PieceBytes(list) / sectorsum.Bytes
		if r = s.Sum(key, list, sums[:n]); r != gpubackend.Success { // some may be under way
			s.Close()
			delete(m.summers, c)
		}
		sums = sums[n:]
		return r
	})
}

// LoadPieces copies them back.
func (m *Memory) LoadPieces(list []gpubackend.Piece, image []byte) gpubackend.Result {
	return m.copyEach(list, image, (*pump).in)
}

// SaveApart copies them through pinned memory, each to its own.
func (m *Memory) SaveApart(list []gpubackend.Piece, images [][]byte) gpubackend.Result {
	if !gpubackend.Apart(list, images) {
		return gpubackend.InvalidValue
	}
	stop := makePages(images) // while the pump is made
	defer stop()
	return m.pumpEach(list, func(p *pump, list []gpubackend.Piece) gpubackend.Result {
		stop()
		var all []portion
		for i := range list {
			all = append(all, portions(list[i:i+1], images[i])...)
		}
		images = images[len(list):]
		return p.outPortions(all)
	})
}

// copyEach copies pieces to or from an image, in which they follow one another.
func (m *Memory) copyEach(
	list []gpubackend.Piece, image []byte,
	copyAll func(*pump, []gpubackend.Piece, []byte) gpubackend.Result,
) gpubackend.Result {
	if gpubackend.PieceBytes(list) > uint64(len(image)) {
		return gpubackend.InvalidValue
	}
	return m.pumpEach(list, func(p *pump, list []gpubackend.Piece) gpubackend.Result {
		part := image
		image = image[gpubackend.PieceBytes(list):]
		return copyAll(p, list, part)
	})
}

// pumpEach copies the pieces of one GPU after the other.
func (m *Memory) pumpEach(
	list []gpubackend.Piece, do func(*pump, []gpubackend.Piece) gpubackend.Result,
) gpubackend.Result {
	return m.eachGPU(list, func(c *contexts.Context, list []gpubackend.Piece) gpubackend.Result {
		p, r := m.pumpFor(c)
		if r != gpubackend.Success {
			return r
		}
		if r = do(p, list); r != gpubackend.Success { // some may be under way
			p.close()
			delete(m.pumps, c)
		}
		return r
	})
}

// eachGPU runs do with the pieces of each GPU, in a context of that GPU.
func (m *Memory) eachGPU(
	list []gpubackend.Piece, do func(*contexts.Context, []gpubackend.Piece) gpubackend.Result,
) gpubackend.Result {
	for len(list) > 0 {
		gpu, n := m.gpuAt(list[0].Address), 1
		for n < len(list) && m.gpuAt(list[n].Address) == gpu {
			n++
		}
		c := m.copier(gpu) // none of GPU -1
		if c == nil {
			return gpubackend.InvalidValue
		}
		r := m.contexts.In(c, func() gpubackend.Result {
			if r := m.heaps[gpu].backing.show(); r != gpubackend.Success {
				return r
			}
			return do(c, list[:n])
		})
		if r != gpubackend.Success {
			return r
		}
		list = list[n:]
	}
	return gpubackend.Success
}

// gpuAt is the GPU that an address of the window is of, or -1.
func (m *Memory) gpuAt(addr uint64) int {
	for i := range m.heaps {
		if addr-m.heaps[i].base < m.window {
			return i
		}
	}
	return -1
}

// heapAt is the heap of that GPU, or nil.
func (m *Memory) heapAt(addr uint64) *devmem.Heap {
	if i := m.gpuAt(addr); i >= 0 {
		return m.heaps[i].Heap
	}
	return nil
}

// LeavePieces unmaps them: without a handle and a mapping the driver gives the memory to others.
func (m *Memory) LeavePieces(list []gpubackend.Piece) gpubackend.Result {
	return movable.Leave(m.heapAt, list)
}

// ReturnPieces makes and maps memory again.
func (m *Memory) ReturnPieces(list []gpubackend.Piece) gpubackend.Result {
	return movable.Return(m.heapAt, list)
}
