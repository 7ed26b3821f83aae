// SPDX-License-Identifier: Apache-2.0

package ram

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// ErrNotGuests says that what a worker wants to map isn't the guest's memory.
var ErrNotGuests = errors.New("not in the guest's memory")

// Stands says whether a number stands for a file.
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

// By says by what right guest memory is mapped, perhaps to be written: it asks has about ranges to
// which there is a right, until it says yes, and returns why there is none. It may touch mem, whose
// faults are survived.
type By func(mem vouchers.Memory, write bool, has func(wire.Run) bool) error

// Allow gives the file of a mapping that has the guest's memory and nothing else, if there is a
// right to it. Only whole pages, or huge pages, can be mapped: of a page to some of which there is
// a right all is allowed. Nil: there is a right to everything.
func (r *RAM) Allow(m mapleave.Mapping, by By, give func(fd int) error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	fd := -1
	is := func(run wire.Run) bool {
		for i := range r.parts {
			x := &r.parts[i]
			if its := x.file(m.Number); its >= 0 && x.holds(run, m.Offset, m.Length) {
				fd = its
				return true
			}
		}
		return false
	}
	if !is(all) {
		return fmt.Errorf("%d bytes at %#x of file %d: %w", m.Length, m.Offset, m.Number,
			ErrNotGuests)
	}
	if by != nil {
		write := m.Writable || r.writable(m.Number)
		err := r.mapped.Guard(func() error { return by(memory{r.mapped}, write, is) })
		if err != nil {
			return fmt.Errorf("%d bytes at %#x of file %d: %w", m.Length, m.Offset, m.Number, err)
		}
	}
	return give(fd)
}

// writable says whether the kernel lets a worker write to whatever it maps by a number, also if it
// maps it to be read only (mprotect). Unless files can be opened to be read only, nothing is done
// about that.
func (r *RAM) writable(number uint32) bool {
	return len(r.opened) > 0 && slices.ContainsFunc(r.parts, func(x part) bool {
		return x.number == number
	})
}

// all is any guest's memory.
var all = wire.Run{Bytes: math.MaxUint64}

// memory is the guest's as vouchers are read from it.
type memory struct{ *guestmem.Memory }

// At implements vouchers.Memory.
func (m memory) At(address, n uint64) []byte {
	b, err := m.Slice(address, n)
	if err != nil {
		return nil
	}
	return b
}

// part is a region of the memory in use.
type part struct {
	guestmem.Numbered
	number, readNumber uint32   // of its file
	toRead             *os.File // the same, opened to be read only; nil: it can't be
}

// file is what a number stands for; -1: nothing of this region.
func (x *part) file(number uint32) int {
	switch {
	case number == x.readNumber && x.toRead != nil:
		return int(x.toRead.Fd())
	case number == x.number, number == x.readNumber: // a worker of the previous process may have it
		return x.FD
	}
	return -1
}

// partsOf are the regions of a memory whose files have numbers, and are opened to be read only.
func (r *RAM) partsOf(mem *guestmem.Memory, opened []*os.File) (parts []part) {
	if mem == nil {
		return nil
	}
	regions, _ := handover.Describe(mem.Regions())
	for i, x := range mem.Numbered() {
		number, is := r.numbers.Of(x.FD)
		if !is {
			continue
		}
		p := part{Numbered: x, number: number, readNumber: r.numbers.ToRead(number)}
		if of := regions[i].File; of < len(opened) {
			p.toRead = opened[of]
		}
		parts = append(parts, p)
	}
	return parts
}

// openToRead opens the files of a memory once more, to be read only: all of them, in the order of
// handover.Describe, or none, as is said once.
func (r *RAM) openToRead(mem *guestmem.Memory) []*os.File {
	if mem == nil || r.readers == nil {
		return nil
	}
	_, files := handover.Describe(mem.Regions())
	opened, err := r.readers.All(files)
	if err != nil {
		r.once.Do(func() {
			r.log.WithError(err).Info("a worker can write to what it maps only to read it")
		})
	}
	return opened
}

// told are the regions as processes know them that ask for mappings.
func told(parts []part) (list []guestmem.Numbered) {
	for i := range parts {
		x := parts[i].Numbered
		x.FD, x.ReadFD = int(parts[i].number), int(parts[i].number)
		if parts[i].toRead != nil {
			x.ReadFD = int(parts[i].readNumber)
		}
		list = append(list, x)
	}
	return list
}

// holds says whether a range of the file, in whole pieces, has something of a run in this region,
// and nothing that lies in pieces without any. Offset and length don't wrap.
func (x *part) holds(run wire.Run, offset, length uint64) bool {
	last := run.Address + (run.Bytes - 1)
	if run.Bytes == 0 || last < run.Address {
		return false
	}
	from, to := max(run.Address, x.GuestAddr), min(last, x.GuestAddr+(x.Size-1))
	if from > to {
		return false
	}
	begin := (x.FileOffset + (from - x.GuestAddr)) &^ (x.Piece - 1)
	end := (x.FileOffset + (to - x.GuestAddr) + x.Piece) &^ (x.Piece - 1)
	length = (length + x.Piece - 1) &^ (x.Piece - 1) // as the kernel does
	return offset >= begin && offset <= end && length <= end-offset
}
