// SPDX-License-Identifier: Apache-2.0

// Package outgoing sends the device memory of a VM's programs to the device process to which the VM
// is going to be migrated (package precopy), while they run: all of it, and then again and again
// what has changed (package passes), until the VM stands still. What has changed since then is
// migrated with the VM.
//
// A pass is followed by a rest that is many times longer, so that programs have the GPU and their
// worker most of the time, even if the migration takes long.
//
// # Who owns what
//
// An Outgoing has a lock, under which it calls nobody. The goroutine of Send owns the connection
// until Finish, which waits for the step that is under way.
//
// # Who may lie
//
// The other device process (package precopy). If it misbehaves, the VM is migrated with all of its
// memory.
package outgoing

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/precopy"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// Config is what an Outgoing needs of its VM.
type Config struct {
	Header precopy.Header
	Passes *passes.Passes
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
	copies  *passes.Session
	sender  *precopy.Sender
	stop    chan struct{} // closed when the VM stands still
	stopped chan struct{} // closed when nothing is copied any more
	err     error         // why it is of no use; others may read it once stopped is closed
	result  chan error
}

// Take implements passes.Sink.
func (s *session) Take(p passes.Program, addresses []uint64, b []byte) error {
	for i, at := range addresses {
		sector := b[i*sectorsum.Bytes:][:sectorsum.Bytes]
		if err := s.sender.Sector(p.Channel, at, sector); err != nil {
			return err
		}
	}
	return nil
}

// Send sends memory over a connection until the VM has gone (Finish), and says how much was sent.
// tell is called now and then.
func (o *Outgoing) Send(c precopy.Conn, tell func(Progress)) (bytes uint64, err error) {
	s := &session{config: &o.config, number: 1 + rand.Uint64N(1<<63), stop: make(chan struct{}),
		stopped: make(chan struct{}), result: make(chan error, 1)}
	if s.copies, err = o.config.Passes.Begin(s, nil); err != nil {
		return 0, fmt.Errorf("send device memory ahead: %w", err)
	}
	o.mu.Lock()
	o.now = s // there was none: one that has finished still has its copies
	o.mu.Unlock()
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
		s.copies.Close()
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
func (w *Went) Has(worker any) bool { return w.of != nil && w.of.copies.Has(worker) }

// Over tells workers that they needn't know any more what has changed. with is how many bytes went
// with the VM.
func (w *Went) Over(with uint64) {
	if w.of == nil {
		return
	}
	w.of.copies.Close()
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
		s.copies.Close()
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
		over, err := s.copies.Pass(func() bool {
			select {
			case <-s.stop:
				return false
			default:
				tell(Progress{s.sender.Sent(), whole})
				return true
			}
		})
		if err != nil || !over {
			return err
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
