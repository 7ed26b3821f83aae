// SPDX-License-Identifier: Apache-2.0

// Package passes copies the device memory of a VM's programs ahead, while they run, to whoever
// takes it (Sink): another device process to which the VM is going to be migrated (package
// outgoing), or a file to which it is going to be suspended (package saving). All of it is copied
// once, and then, pass by pass, what has changed since. What has changed when the programs stand
// still goes with them.
//
// Workers find out what has changed (package worker/precopied). The Sink's owner says when passes
// are made, and when there are enough.
//
// # Who owns what
//
// There is one Session at a time: a worker knows only one kind of copies. Its owner may use it on
// one goroutine. A session owns a buffer for each worker, through which sectors come.
//
// # Who may lie
//
// Workers: what they report is bounded, in the order of addresses, and wrong contents harm only
// their own program. What is in a buffer is copied before it is used. If it isn't known what a
// worker has copied, all of its memory goes with the VM.
package passes

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Bounds of a buffer through which a worker's sectors come.
const (
	BufferSectors = 16
	bufferBytes   = BufferSectors * sectorsum.Bytes
)

// Worker is the worker of a program. It is compared by identity.
type Worker interface {
	// Precopy makes it copy sectors into the buffer. It returns which, and whether a pass is over.
	// With a new buffer it begins anew, and copies none; with filed, what is in the file that its
	// program went on from needs no copy. An error that is ErrNone says that it has copied none.
	Precopy(buffer *os.File, filed bool) (sectors []uint64, over bool, err error)
	// PrecopyOver says that nothing is copied any more.
	PrecopyOver()
}

// ErrNone is wrapped by errors of a worker that has copied nothing.
var ErrNone = errors.New("no device memory is copied now")

// ErrBusy says that there is a session already.
var ErrBusy = errors.New("the memory of this VM is being copied already, to a file or to another " +
	"device process")

// Program is one that is running.
type Program struct {
	Channel int
	Worker  Worker
}

// Sink takes sectors.
type Sink interface {
	// Take takes sectors of a program, which lie in b one behind the other. They replace earlier
	// ones with the same addresses. It doesn't keep b.
	Take(p Program, addresses []uint64, b []byte) error
}

// Config is what Passes need of their VM.
type Config struct {
	Programs func() []Program
	Log      *logrus.Entry
}

// Passes gives out sessions.
type Passes struct {
	config Config
	busy   atomic.Bool
}

// New returns the Passes of a VM.
func New(c Config) *Passes { return &Passes{config: c} }

// Session is memory that is copied to one Sink.
type Session struct {
	of      *Passes
	to      Sink
	filed   func(Worker) bool
	workers map[Worker]*copied
	space   []byte // for what was in a buffer
}

// copied is what a worker has copied.
type copied struct {
	buffer *os.File
	fails  bool   // what it has copied isn't known
	next   uint64 // of this pass: the least address that may follow
	steps  int    // of this pass
}

// mostSteps is how many steps of one worker make a pass at most: a TiB.
const mostSteps = 1 << 18

// Begin begins a session, which must be closed. filed says of which workers the sink has what was
// in the file from which their programs went on; nil: of none.
func (p *Passes) Begin(to Sink, filed func(Worker) bool) (*Session, error) {
	if !p.busy.CompareAndSwap(false, true) {
		return nil, ErrBusy
	}
	return &Session{of: p, to: to, filed: filed, workers: map[Worker]*copied{},
		space: overlap.Take(bufferBytes)}, nil
}

// Close gives the buffers back. Workers that have one needn't know any more what has changed.
func (s *Session) Close() {
	for w, c := range s.workers {
		_ = c.buffer.Close()
		w.PrecopyOver()
	}
	overlap.Give(s.space)
	s.workers, s.space = nil, nil
	s.of.busy.Store(false)
}

// Has says whether memory of a worker's program was copied: the worker knows what has changed
// since.
func (s *Session) Has(worker any) bool {
	x, ok := worker.(Worker)
	c := s.workers[x]
	return ok && c != nil && !c.fails
}

// Pass makes a pass over all programs. goOn is asked before each step; whole says that it never
// said no.
func (s *Session) Pass(goOn func() bool) (whole bool, err error) {
	programs := s.of.config.Programs()
	s.leave(programs)
	for _, p := range programs {
		for over := false; !over; {
			if !goOn() {
				return false, nil
			}
			if over, err = s.step(p); err != nil {
				return false, err
			}
		}
		if c := s.workers[p.Worker]; c != nil {
			c.next, c.steps = 0, 0
		}
	}
	return true, nil
}

// leave gives back what there is of workers that have ended.
func (s *Session) leave(programs []Program) {
	for w, c := range s.workers {
		if !slices.ContainsFunc(programs, func(p Program) bool { return p.Worker == w }) {
			_ = c.buffer.Close()
			delete(s.workers, w)
		}
	}
}

// step makes a program's worker copy some sectors, which the sink gets. over says that its pass is
// over.
func (s *Session) step(p Program) (over bool, err error) {
	c, err := s.begin(p.Worker)
	if err != nil || c.fails {
		return true, err
	}
	sectors, over, err := p.Worker.Precopy(nil, false)
	switch {
	case errors.Is(err, ErrNone): // perhaps in the next pass
		return true, nil
	case err != nil || !c.takes(sectors):
		c.fails = true
		s.of.config.Log.WithError(err).WithField("channel", p.Channel).
			Debug("device memory of a program isn't copied ahead")
		return true, nil
	case len(sectors) == 0:
		return over, nil
	}
	b := s.space[:len(sectors)*sectorsum.Bytes]
	if err := fileat.Read(int(c.buffer.Fd()), b, 0); err != nil {
		return false, fmt.Errorf("read what a worker has copied: %w", err)
	}
	return over, s.to.Take(p, sectors, b)
}

// takes says whether a worker can have copied these.
func (c *copied) takes(sectors []uint64) bool {
	if c.steps++; len(sectors) > BufferSectors || c.steps > mostSteps {
		return false
	}
	for _, at := range sectors {
		if at%sectorsum.Bytes != 0 || at < c.next {
			return false
		}
		c.next = at + sectorsum.Bytes
	}
	return true
}

// begin gives a worker a buffer of its own: no other program may see its content.
func (s *Session) begin(w Worker) (*copied, error) {
	if c := s.workers[w]; c != nil {
		return c, nil
	}
	// Its size is sealed: the worker can't make this process read beyond its end.
	fd, err := memfd.New("precopy", bufferBytes)
	if err != nil {
		return nil, fmt.Errorf("make a buffer: %w", err)
	}
	c := &copied{buffer: os.NewFile(uintptr(fd), "precopy")}
	s.workers[w] = c
	if _, _, err := w.Precopy(c.buffer, s.filed != nil && s.filed(w)); err != nil {
		c.fails = true
		s.of.config.Log.WithError(err).Debug("device memory of a program isn't copied ahead")
	}
	return c, nil
}
