// SPDX-License-Identifier: Apache-2.0

// Package layout saves and restores what lies where in the device memory of all GPUs: the part of
// gpubackend.Saving that is the same for all devices.
//
// A layout is saved as the number of GPUs, and for each GPU the length of its saved heap and the
// heap itself (package devmem). Numbers are little-endian and of 64 bits. The mover's memory is
// left out: another mover will get other memory.
//
// # Who owns what
//
// The heaps stay the caller's. While a layout is restored, they give out only what was announced
// (Next).
//
// # Who may lie
//
// Whoever wrote the layout. A layout that contradicts itself is refused; what a heap maps is
// bounded as all memory is.
package layout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/ledger"
)

// ErrLayout is wrapped by all errors that say what is wrong with a saved layout.
var ErrLayout = errors.New("the layout of device memory")

// LeftOut says whether segments of a kind are left out of a layout.
func LeftOut(k ledger.Kind) bool { return k == ledger.Staging }

// later says whether segments of a kind stay away until they are asked for: only who asks knows how
// their memory is to be made.
func later(k ledger.Kind) bool { return k == ledger.Mapped }

// Save writes the layout of heaps, one for each GPU.
func Save(heaps []*devmem.Heap, to io.Writer) error {
	list := binary.LittleEndian.AppendUint64(nil, uint64(len(heaps)))
	for _, h := range heaps {
		var b bytes.Buffer
		if err := h.Save(&b, LeftOut); err != nil {
			return err
		}
		list = binary.LittleEndian.AppendUint64(list, uint64(b.Len()))
		list = append(list, b.Bytes()...)
	}
	if _, err := to.Write(list); err != nil {
		return fmt.Errorf("save %w: %w", ErrLayout, err)
	}
	return nil
}

// Restoring is heaps that are being restored. They must be given up if anything fails.
type Restoring struct {
	of   func(addr uint64) *devmem.Heap
	list map[*devmem.Heap]*devmem.Restoring
}

// Restore begins to turn empty heaps into those that were saved, with memory behind their
// addresses, except in segments of memory that is mapped apart (ledger.Mapped): whoever asks for
// one has it return. of is the heap of an address, or nil.
func Restore(
	heaps []*devmem.Heap, of func(addr uint64) *devmem.Heap, from io.Reader,
) (*Restoring, error) {
	switch n, err := number(from); {
	case err != nil:
		return nil, err
	case n != uint64(len(heaps)):
		return nil, fmt.Errorf("%w is for %d GPUs, not %d", ErrLayout, n, len(heaps))
	}
	r := &Restoring{of, map[*devmem.Heap]*devmem.Restoring{}}
	for _, h := range heaps {
		n, err := number(from)
		if err != nil {
			return nil, err
		}
		if err := r.restore(h, io.LimitReader(from, int64(min(n, mostHeap)))); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// mostHeap is more than any saved heap takes.
const mostHeap = 1 << 40

// restore begins to restore one heap.
func (r *Restoring) restore(h *devmem.Heap, from io.Reader) error {
	x, err := devmem.Restore(h, from)
	if err != nil {
		return err
	}
	r.list[h] = x
	var addrs []uint64
	for _, s := range x.Segments() {
		if !later(s.Kind) {
			addrs = append(addrs, s.Address)
		}
	}
	return devmem.ReturnAll(r.of, addrs)
}

func number(from io.Reader) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(from, b[:]); err != nil {
		return 0, fmt.Errorf("read %w: %w", ErrLayout, err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// Next says where the next allocation is. After Done there is none.
func (r *Restoring) Next(addr uint64) error {
	if r != nil {
		if x := r.list[r.of(addr)]; x != nil {
			return x.Next(addr)
		}
	}
	return fmt.Errorf("%w has nothing at %#x", ErrLayout, addr)
}

// Done says whether every allocation has been given out.
func (r *Restoring) Done() error {
	if r == nil {
		return nil
	}
	for _, x := range r.list {
		if err := x.Done(); err != nil {
			return err
		}
	}
	return nil
}
