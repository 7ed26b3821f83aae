// SPDX-License-Identifier: Apache-2.0

// Package ram has the guest's memory in the device process: it maps it, describes it to other
// processes, and marks written pages in the log while the VM is migrated.
//
// # Who owns what
//
// The session owns what it maps; a RAM has the mapping in use, with a lock that is held for as long
// as anybody uses it (Use). Its holder may take locks of parts that don't use memory, and waits for
// nobody, except the kernel when a file goes to a worker. When Put or SetLog returns, nobody uses
// the previous memory or log any more.
//
// Workers that ask for what they map (package mapleave) know files by numbers, and others get
// descriptors.
//
// # Who may lie
//
// The front end, in its memory table: package guestmem checks it, and guards what reads there.
package ram

import (
	"os"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/numbering"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// RAM is a guest's memory. There is none until the front end has sent some.
type RAM struct {
	log     *logrus.Entry
	numbers *numbering.Numbers // nil: no worker asks
	opener  Opener             // nil: there is none
	readers *numbering.Opened  // its files, opened to be read only; nil: nobody can; Put's
	once    sync.Once          // somebody was told that files can't be opened to be read only
	dirty   dirtylog.Switch
	came    chan struct{} // closed when there is memory

	mu     sync.RWMutex
	mapped *guestmem.Memory // nil: none; guarded by mu
	parts  []part           // of it, with numbers; guarded by mu
	opened []*os.File       // all of its files, opened to be read only; or none; guarded by mu
	open   error            // Open; guarded by mu
}

// Opener is another process, which does with files of the guest's memory what this one may not.
type Opener interface {
	// Reopen opens a file once more, to be read only.
	Reopen(fd int) (*os.File, error)
	// Shut takes all permissions of a file without a name.
	Shut(fd int) error
}

// New returns the memory of a guest that has sent none yet. Its files get numbers, unless that is
// nil, and the opener, unless it is nil, opens them once more, and takes their permissions.
func New(numbers *numbering.Numbers, opener Opener, log *logrus.Entry) *RAM {
	r := &RAM{log: log, numbers: numbers, came: make(chan struct{})}
	if numbers != nil && opener != nil {
		r.opener, r.readers = opener, numbers.NewOpened(opener.Reopen)
	}
	return r
}

// Map maps a front end's memory, which isn't in use before Put.
func (r *RAM) Map(m *vhostuser.Memory) (*guestmem.Memory, error) {
	mapped, err := m.Map()
	if err != nil {
		return nil, err
	}
	mapped.Log(&r.dirty)
	return mapped, nil
}

// Put makes a memory the guest's, and returns the one before, which nobody uses any more, except
// those who got a description of it (Message); nil: there was none.
func (r *RAM) Put(mapped *guestmem.Memory) (before *guestmem.Memory) {
	opened := r.openToRead(mapped) // which waits for another process
	open := r.shutAll(mapped)      // after that: nobody opens them any more
	r.mu.Lock()
	defer r.mu.Unlock()
	before, r.mapped = r.mapped, mapped
	if err := r.numbers.Set(files(mapped)); err != nil {
		r.log.WithError(err).Error("workers can't map the guest's memory")
	}
	r.opened, r.parts = opened, r.partsOf(mapped, opened)
	if r.readers != nil {
		r.readers.Keep(opened)
	}
	r.open = open
	select {
	case <-r.came:
	default:
		if mapped != nil {
			close(r.came)
		}
	}
	return before
}

// files are those of a memory; nil: there is none.
func files(mem *guestmem.Memory) (fds []int) {
	if mem == nil {
		return nil
	}
	for _, x := range mem.Regions() {
		fds = append(fds, x.FD)
	}
	return fds
}

// Came is closed when the front end has sent memory for the first time.
func (r *RAM) Came() <-chan struct{} { return r.came }

// Use calls f with the memory, nil if there is none. Of this package f may only call Log.
func (r *RAM) Use(f func(mem *guestmem.Memory)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f(r.mapped)
}

// Now is the memory, for the one who replaces it; nil: there is none.
func (r *RAM) Now() *guestmem.Memory {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.mapped
}

// Message tells a process of the guest's memory, if there is some. Its files are the memory's, and
// open as long as that is: before it is closed, all processes are told of the next one.
func (r *RAM) Message() (m *handover.Message, files []int) { return r.MessageTo(false) }

// MessageTo is Message for a process that may ask for what it maps.
func (r *RAM) MessageTo(asks bool) (m *handover.Message, files []int) {
	m = &handover.Message{Kind: handover.KindMemory}
	r.Use(func(mem *guestmem.Memory) { files = r.DescribeTo(asks, mem, m, nil) })
	return m, files
}

// DescribeTo is Describe for a process that may ask for what it maps: then it gets no files.
func (r *RAM) DescribeTo(
	asks bool, mem *guestmem.Memory, m *handover.Message, fds []int,
) []int {
	if !asks || mem == nil {
		return Describe(mem, m, fds)
	}
	m.Memory = handover.DescribeNumbered(told(r.parts))
	return fds
}

// Describe adds a memory (nil: none) to a message, and its files to the message's.
func Describe(mem *guestmem.Memory, m *handover.Message, fds []int) []int {
	if mem == nil {
		return fds
	}
	regions, files := handover.Describe(mem.Regions())
	m.Memory, m.Files.Memory = regions, len(files)
	return append(fds, files...)
}

// SetLog changes where writes are marked, nil for nowhere. When it returns, nobody writes to the
// previous one any more, or hands it on.
func (r *RAM) SetLog(log *dirtylog.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dirty.Set(log)
}

// Log is where writes are marked; nil: nowhere. Only within Use may it be handed on.
func (r *RAM) Log() *dirtylog.Log { return r.dirty.Log() }

// MarkAll marks all of it as written to, after the end of a process that can't say what it has
// written.
func (r *RAM) MarkAll() {
	log := r.dirty.Log()
	if log == nil {
		return
	}
	r.Use(func(mem *guestmem.Memory) {
		if mem == nil {
			return
		}
		r.log.Info("a process has ended while the VM is migrated: all of the VM's memory is " +
			"sent again")
		for _, x := range mem.Regions() {
			log.Mark(x.GuestAddr, x.Size)
		}
	})
}
