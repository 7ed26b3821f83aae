// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// ErrNotGuests says that what a worker wants to map isn't the guest's memory.
var ErrNotGuests = errors.New("not in the guest's memory")

// Stands implements mapleave.Policy.
func (r *RAM) Stands(number uint32) bool { return r.numbers.Stands(number) }

// Numbers are those that stand for files.
func (r *RAM) Numbers() []uint32 { return r.numbers.All() }

// HasAny says whether one of these files has some of the guest's memory. A worker can have sent it
// that may only map it: nobody may hand it on.
func (r *RAM) HasAny(fds []int) bool {
	return slices.ContainsFunc(fds, func(fd int) bool {
		_, is := r.numbers.Of(fd)
		return is
	})
}

// Allow implements mapleave.Policy: all of the guest's memory may be mapped. A range must lie in
// one region, as far as pages, or huge pages, are divided among regions.
func (r *RAM) Allow(m mapleave.Mapping, give func(fd int) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range r.parts {
		if x := &r.parts[i]; x.number == m.Number && holds(&x.Numbered, m.Offset, m.Length) {
			return give(x.FD)
		}
	}
	return fmt.Errorf("%d bytes at %#x of file %d: %w", m.Length, m.Offset, m.Number, ErrNotGuests)
}

// part is a region of the memory in use.
type part struct {
	guestmem.Numbered
	number uint32 // of its file
}

// partsOf are the regions of a memory whose files have numbers.
func (r *RAM) partsOf(mem *guestmem.Memory) (parts []part) {
	if mem == nil {
		return nil
	}
	for _, x := range mem.Numbered() {
		if number, is := r.numbers.Of(x.FD); is {
			parts = append(parts, part{x, number})
		}
	}
	return parts
}

// holds says whether a region has a range of its file, in whole pieces. Neither wraps.
func holds(x *guestmem.Numbered, offset, length uint64) bool {
	begin := x.FileOffset &^ (x.Piece - 1)
	end := (x.FileOffset + x.Size + x.Piece - 1) &^ (x.Piece - 1)
	length = (length + x.Piece - 1) &^ (x.Piece - 1) // as the kernel does
	return offset >= begin && offset <= end && length <= end-offset
}
