// SPDX-License-Identifier: Apache-2.0

// Package outgoing sends the device memory of a VM's programs to the device process to which the VM
// is going to be migrated (package precopy), while they run: all of it, and then again and again
// what has changed, until the VM stands still. What has changed since then is migrated with the VM.
//
// Workers find out what has changed (package worker/precopied). A pass over all of them is followed
// by a rest that is many times longer, so that programs have the GPU and their worker most of the
// time, even if the migration takes long.
//
// # Who owns what
//
// An Outgoing has a lock, under which it calls nobody. The goroutine of Send owns the connection
// until Finish, which waits for the step that is under way.
//
// # Who may lie
//
// Workers: the sectors that they report are bounded, and wrong contents harm only their own
// program. If it isn't known what a worker has copied, all of its memory goes with the VM.
//
// The other device process (package precopy). If it misbehaves, the VM is migrated with all of its
// memory.
package outgoing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/precopy"
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
	// With a new buffer it begins anew, and copies none. An error that is ErrNone says that it has
	// copied none.
	Precopy(buffer *os.File) (sectors []uint64, over bool, err error)
	// PrecopyOver says that nothing is copied any more.
	PrecopyOver()
}

// ErrNone is wrapped by errors of a worker that has copied nothing.
var ErrNone = errors.New("no device memory is copied now")

// Program is one that is running.
type Program struct {
	Channel int
	Worker  Worker
}

// Config is what an Outgoing needs of its VM.
type Config struct {
	Header   precopy.Header
	Programs func() []Program
	// Limit is how long a step may take at the other device process, or on the way there.
	Limit time.Duration
	Log   *logrus.Entry
}

// Outgoing sends memory ahead.
type Outgoing struct {
	config Config

	mu  sync.Mutex
	now *session // nil: there is none; guarded by mu
}

// New returns the Outgoing of a VM, which sends nothing yet.
func New(c Config) *Outgoing { return &Outgoing{config: c} }

// Progress is how much was sent, and whether everything was sent once.
type Progress struct {
	Bytes uint64
	Whole bool
}

// session is what is sent over one connection.
type session struct {
	config  *Config
	number  uint64
	sender  *precopy.Sender
	stop    chan struct{} // closed when the VM stands still
	stopped chan struct{} // closed when nothing is copied any more
	workers map[Worker]*copied
	err     error // why it is of no use; others may read it once stopped is closed
	result  chan error
}

// copied is what a worker has copied.
type copied struct {
	buffer *os.File
	fails  bool // what it has copied isn't known
}

var errBusy = errors.New("the memory of this VM goes to another device process already")

// Send sends memory over a connection until the VM has gone (Finish), and says how much was sent.
// tell is called now and then.
func (o *Outgoing) Send(c precopy.Conn, tell func(Progress)) (bytes uint64, err error) {
	s := &session{config: &o.config, number: 1 + rand.Uint64N(1<<63), stop: make(chan struct{}),
		stopped: make(chan struct{}), workers: map[Worker]*copied{}, result: make(chan error, 1)}
	o.mu.Lock()
	busy := o.now != nil
	if !busy {
		o.now = s
	}
	o.mu.Unlock()
	if busy {
		return 0, errBusy
	}
	if s.sender, s.err = precopy.Greet(c, o.config.Header, s.number, o.config.Limit); s.err == nil {
		s.err = s.passes(tell)
	}
	err = s.err
	close(s.stopped)
	if err == nil {
		err = <-s.result
	} else if o.end(s) { // nobody else has ended it
		o.config.Log.WithError(err).
			Warn("device memory that went ahead is of no use: all goes with the VM")
		s.close()
	}
	if s.sender != nil {
		bytes = s.sender.Sent()
	}
	return bytes, err
}

// end forgets a session, and says whether there was one.
func (o *Outgoing) end(s *session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.now != s {
		return false
	}
	o.now = nil
	return true
}

// Went is what went ahead of a VM that stands still.
type Went struct {
	of *session // nil: nothing went
}

// Number is the number by which the destination knows it; 0: nothing went.
func (w *Went) Number() uint64 {
	if w.of == nil {
		return 0
	}
	return w.of.number
}

// Has says whether memory of a worker's program went ahead: the worker knows what has changed
// since.
func (w *Went) Has(worker any) bool {
	if w.of == nil {
		return false
	}
	x, ok := worker.(Worker)
	c := w.of.workers[x]
	return ok && c != nil && !c.fails
}

// Over tells workers that they needn't know any more what has changed. with is how many bytes went
// with the VM.
func (w *Went) Over(with uint64) {
	if w.of == nil {
		return
	}
	w.of.close()
	w.of.config.Log.WithFields(logrus.Fields{"ahead": w.of.sender.Sent(), "with": with}).
		Info("device memory went ahead of the VM, and what has changed with it")
}

// Finish is called when all programs stand still, and returns what of their memory went ahead.
func (o *Outgoing) Finish() *Went {
	o.mu.Lock()
	s := o.now
	o.now = nil
	o.mu.Unlock()
	if s == nil {
		return &Went{}
	}
	close(s.stop)
	<-s.stopped
	err := s.err
	if err == nil {
		err = s.sender.End()
		s.result <- err
	}
	if err != nil {
		o.config.Log.WithError(err).
			Warn("device memory that went ahead is of no use: all goes with the VM")
		s.close()
		return &Went{}
	}
	return &Went{s}
}

// Rests between two passes.
const (
	restFactor = 10 // times as long as the pass
	leastRest  = 100 * time.Millisecond
	mostRest   = 10 * time.Second
)

// passes makes one pass after the other until the VM stands still.
func (s *session) passes(tell func(Progress)) error {
	for whole := false; ; whole = true {
		begin := time.Now()
		programs := s.config.Programs()
		s.leave(programs)
		for _, p := range programs {
			for over := false; !over; {
				select {
				case <-s.stop:
					return nil
				default:
				}
				var err error
				if over, err = s.step(p); err != nil {
					return err
				}
				tell(Progress{s.sender.Sent(), whole})
			}
		}
		tell(Progress{s.sender.Sent(), true})
		rest := time.NewTimer(min(max(restFactor*time.Since(begin), leastRest), mostRest))
		select {
		case <-s.stop:
			rest.Stop()
			return nil
		case <-rest.C:
		}
		if err := s.sender.Alive(); err != nil {
			return err
		}
	}
}

// leave gives back what there is of workers that have ended.
func (s *session) leave(programs []Program) {
	for w, c := range s.workers {
		if !slices.ContainsFunc(programs, func(p Program) bool { return p.Worker == w }) {
			_ = c.buffer.Close()
			delete(s.workers, w)
		}
	}
}

// step makes a program's worker copy some sectors, and sends them. over says that its pass is over.
func (s *session) step(p Program) (over bool, err error) {
	c, err := s.begin(p.Worker)
	if err != nil || c.fails {
		return true, err
	}
	sectors, over, err := p.Worker.Precopy(nil)
	switch {
	case errors.Is(err, ErrNone): // perhaps in the next pass
		return true, nil
	case err != nil || len(sectors) > BufferSectors:
		c.fails = true
		s.config.Log.WithError(err).WithField("channel", p.Channel).
			Debug("device memory of a program doesn't go ahead")
		return true, nil
	}
	b := make([]byte, sectorsum.Bytes)
	for i, at := range sectors {
		if err := fileat.Read(int(c.buffer.Fd()), b, int64(i)*sectorsum.Bytes); err != nil {
			return false, fmt.Errorf("read what a worker has copied: %w", err)
		}
		if at%sectorsum.Bytes != 0 {
			c.fails = true
			return true, nil
		}
		if err := s.sender.Sector(p.Channel, at, b); err != nil {
			return false, err
		}
	}
	return over, nil
}

// begin gives a worker a buffer of its own: no other program may see its content.
func (s *session) begin(w Worker) (*copied, error) {
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
	if _, _, err := w.Precopy(c.buffer); err != nil {
		c.fails = true
		s.config.Log.WithError(err).Debug("device memory of a program doesn't go ahead")
	}
	return c, nil
}

// close gives the buffers back. Workers that have one needn't keep it.
func (s *session) close() {
	for w, c := range s.workers {
		_ = c.buffer.Close()
		w.PrecopyOver()
	}
}
