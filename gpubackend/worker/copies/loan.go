// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"slices"
	"sort"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
)

// loan is device memory that the mover has mapped, so that it copies directly between guest pages
// and what the guest process allocated there: the GPU need not switch to this process and back.
type loan struct {
	base, bytes uint64
	number      uint32 // the mover's
	refused     bool   // the mover can't map it
	ended       bool   // the device has given the memory up
	recalled    bool   // it was taken back, and may be lent again
}

// loans are in order of their addresses; none overlaps another.
type loans struct {
	list    []*loan
	watched bool
}

// maxLoans bounds the memory that the mover has mapped for one worker; the mover's own bound is
// higher.
const maxLoans = 2000

// end is the address after a loan.
func (l *loan) end() uint64 { return l.base + l.bytes }

// covers says whether a loan has the whole of a range.
func (l *loan) covers(address, bytes uint64) bool {
	return address >= l.base && bytes <= l.bytes && address-l.base <= l.bytes-bytes
}

// after is the position of the first loan that ends after an address.
func (s *loans) after(address uint64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].end() > address })
}

// find returns the loan that holds an address, or nil.
func (s *loans) find(address uint64) *loan {
	if i := s.after(address); i < len(s.list) && s.list[i].base <= address {
		return s.list[i]
	}
	return nil
}

// insert adds a loan, unless it overlaps another.
func (s *loans) insert(l *loan) bool {
	i := s.after(l.base)
	if i < len(s.list) && s.list[i].base < l.end() {
		return false
	}
	s.list = slices.Insert(s.list, i, l)
	return true
}

// take removes the loans in a range and returns them.
func (s *loans) take(address, bytes uint64) []*loan {
	from := s.after(address)
	to := from
	for to < len(s.list) && s.list[to].base < address+bytes {
		to++
	}
	gone := slices.Clone(s.list[from:to])
	s.list = slices.Delete(s.list, from, to)
	return gone
}

// lend makes the mover map the memory around an address of the current context, unless it has. nil:
// it can't, for lack of room, or because other processes can't map that kind of memory.
func (t *Copies) lend(address, bytes uint64) *loan {
	l := t.loans.find(address)
	if l == nil {
		if l = t.newLoan(address); l == nil {
			return nil
		}
	}
	if l.refused || !l.covers(address, bytes) {
		return nil
	}
	return l
}

func (t *Copies) newLoan(address uint64) *loan {
	if len(t.loans.list) == maxLoans {
		return nil
	}
	l, start, fd := t.lendable(address)
	if l == nil {
		return nil
	}
	defer unix.Close(fd)
	if !t.loans.insert(l) {
		return nil
	}
	begin := time.Now()
	var err error
	if l.number, err = t.reach.mover.Attach(fd, start, l.bytes); err != nil {
		t.Log.WithError(err).Debug("memory is not lent to the mover")
		if gpubackend.ResultIn(err) == gpubackend.OutOfMemory { // of the GPU, now
			t.loans.take(l.base, l.bytes)
			return nil
		}
		l.refused = true
		return l
	}
	t.Log.WithFields(logrus.Fields{"bytes": l.bytes,
		"took": time.Since(begin)}).Debug("memory is lent to the mover")
	return l
}

// lendable is a loan of the memory around an address: a segment from which the device allocates, or
// a mapping of the guest's own. nil: there is none. The caller closes the file.
func (t *Copies) lendable(address uint64) (l *loan, start uint64, fd int) {
	if m, ok := t.MappedAt(address); ok {
		if m.Access != gpubackend.AccessReadWrite {
			return nil, 0, -1
		}
		fd, result := t.Driver.ExportMemory(m.Native)
		if result != gpubackend.Success {
			return nil, 0, -1
		}
		return &loan{base: m.Base, bytes: m.Bytes}, 0, fd
	}
	shared, fd, result := t.Driver.Share(address)
	if result != gpubackend.Success {
		return nil, 0, -1
	}
	t.Watch()
	return &loan{base: address - shared.Offset, bytes: shared.Bytes}, shared.Start, fd
}

// Watch makes sure that memory is taken back from others before the device gives it up.
func (t *Copies) Watch() {
	if t.loans.watched {
		return
	}
	t.loans.watched = true
	t.Driver.Watch(func(address, bytes uint64) {
		t.EndLoans(address, bytes)
		t.Gone(address, bytes)
	})
}

// Recall takes back everything, while no chunk is under way. Copies that go on lend it again.
func (t *Copies) Recall() {
	for _, l := range t.loans.take(0, ^uint64(0)) {
		l.recalled = true
		t.detach(l)
	}
}

// EndLoans takes back what the device is about to give up, or the guest may no longer access.
// Otherwise the memory would stay in use as long as this process lives.
func (t *Copies) EndLoans(address, bytes uint64) {
	begin := time.Now()
	for _, l := range t.loans.take(address, bytes) {
		l.ended = true
		t.detach(l)
		t.Log.WithField("took", time.Since(begin)).Debug("memory is taken back from the mover")
	}
}

// detach takes back a loan that was removed from the list.
func (t *Copies) detach(l *loan) {
	if l.refused || t.reach.gone {
		return
	}
	if err := t.reach.mover.Detach(l.number); err != nil {
		t.Log.WithError(err).Warn("take device memory back from the mover")
	}
}
