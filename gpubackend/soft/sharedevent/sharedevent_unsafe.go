// SPDX-License-Identifier: Apache-2.0

// Package sharedevent has events that several processes wait for: each is a page that they share.
package sharedevent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
)

// Event is what the processes that have an interprocess event share of it: a page with the number
// of the latest record and that of the latest one that is done. Another process may write anything
// there; all that it achieves is that tasks of this process start too early or never. The page goes
// with the last use of the Event.
type Event struct {
	file     int
	memory   []byte
	recorded *atomic.Uint64
	done     *atomic.Uint64
}

// eventPages counts the pages of events in this process, each a file and a mapping.
var eventPages atomic.Int64

// maxEventPages is known from the start: later the process may not ask for its limits.
var maxEventPages = int64(min(1<<14, proclimit.WorkerFiles()/4))

// MaxEventPages is how many there may be.
func MaxEventPages() int64 { return maxEventPages }

var errEventPages = errors.New("too many interprocess events")

// New makes a page.
func New() (*Event, error) {
	fd, err := memfd.Make(memfd.Form{Kind: memfd.Event, Bytes: uint64(os.Getpagesize())})
	if err != nil {
		return nil, err
	}
	return Map(fd)
}

// Map maps the page of an event, and takes the file over.
func Map(fd int) (*Event, error) {
	if eventPages.Load() >= MaxEventPages() {
		runtime.GC() // ends those that nothing uses any more, soon
		unix.Close(fd)
		return nil, errEventPages
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var stat unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &stat)
	}
	if err == nil && (seals&unix.F_SEAL_SHRINK == 0 || stat.Size != int64(os.Getpagesize())) {
		err = unix.EINVAL
	}
	var memory []byte
	if err == nil {
		memory, err = unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map an event: %w", err)
	}
	// SAFETY: a page is aligned for both words, and mapped for as long as the Event is reachable.
	words := (*[2]atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(memory)))
	s := &Event{file: fd, memory: memory, recorded: &words[0], done: &words[1]}
	eventPages.Add(1)
	runtime.AddCleanup(s, func(m []byte) {
		eventPages.Add(-1)
		_ = unix.Munmap(m)
		_ = unix.Close(fd)
	}, memory)
	return s, nil
}

// Duplicate returns another descriptor of the event's file.
func (s *Event) Duplicate() (int, error) {
	defer runtime.KeepAlive(s)
	return unix.FcntlInt(uintptr(s.file), unix.F_DUPFD_CLOEXEC, 0)
}

// Record numbers a new record.
func (s *Event) Record() uint64 {
	defer runtime.KeepAlive(s)
	return s.recorded.Add(1)
}

// Finish notes that a record is done.
func (s *Event) Finish(number uint64) {
	defer runtime.KeepAlive(s)
	for {
		old := s.done.Load()
		if old >= number || s.done.CompareAndSwap(old, number) {
			return
		}
	}
}

// Latest is the number of the latest record, and whether it is done.
func (s *Event) Latest() (number uint64, done bool) {
	defer runtime.KeepAlive(s)
	number = s.recorded.Load()
	return number, s.done.Load() >= number
}

// Another process doesn't tell when it is done: the page is looked at after growing pauses.
const (
	minEventPause = 20 * time.Microsecond
	maxEventPause = time.Millisecond
)

// Wait returns when a record is done, or when given is closed.
func (s *Event) Wait(number uint64, given <-chan struct{}) {
	defer runtime.KeepAlive(s)
	for pause := minEventPause; s.done.Load() < number; pause = min(2*pause, maxEventPause) {
		select {
		case <-given:
			return
		case <-time.After(pause):
		}
	}
}
