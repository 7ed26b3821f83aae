// SPDX-License-Identifier: Apache-2.0

// Package movers has the mover of a VM: it starts one, connects workers to it, tells it what
// changes and ends it. A VM has one at a time, and perhaps others that were killed and don't end.
//
// # Who owns what
//
// Movers has a lock of its own, under which nobody waits and nothing of Config is called. Methods
// that don't wait, as they say, may be called with other locks held.
//
// # Who may lie
//
// A mover. One that doesn't answer is killed. One that was killed and doesn't end lingers: the GPU
// may still write to the guest's pages for it, so no page of a worker that it served goes back to
// the guest before it has ended.
package movers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/device/child"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
)

// Config is what movers need.
type Config struct {
	// Spawn starts a mover's process, with one end of a control connection.
	Spawn func(control *os.File) (child.Process, error)
	// Go runs a part of this package on a goroutine, and survives its faults.
	Go func(part string, f func())
	// Unmarked is called when a mover has ended that hasn't marked the pages to which it wrote.
	Unmarked func()
	// Serves is called when a mover has started that serves the VM; Over when the process has
	// ended.
	Serves func(p child.Process, conn *child.Conn)
	Over   func(p child.Process)
	// Ending is called when one is killed that workers may have: it answers them no more.
	Ending func(m *Mover)
	// Ended is called when one has ended, and counts no more. It may call anything here.
	Ended func()
	Log   *logrus.Entry

	Start  time.Duration // that a mover may take to start
	Answer time.Duration // to obey a request
	Stop   time.Duration // to let go in an orderly way
	Exit   time.Duration // to be gone when it is killed
}

// Message makes a message and the files that go with it.
type Message func() (*handover.Message, []int)

// Movers are those of one VM.
type Movers struct {
	config   Config
	telling  sync.Mutex    // held while the mover is told of the memory
	starting sync.Mutex    // held while a mover is started; both are taken before mu
	leftGone chan struct{} // closed when the processes are gone that an earlier one left

	mu      sync.Mutex
	current *Mover   // nil: there is none; guarded by mu, as is what follows
	linger  []*Mover // killed ones that don't end
	kills   uint64   // how often Kill was called
}

// Mover is a running mover.
type Mover struct {
	conn    *child.Conn
	proc    child.Process
	ready   chan struct{} // closed when it has started, or can't
	failure error         // why it can't; set before ready is closed
	exited  chan struct{} // closed when the process has ended
	killed  atomic.Bool

	left     bool // of the device process before this one
	stopping bool // it is to serve nobody any more; guarded by Movers.mu
}

// ErrNotReady is that the mover ended, or another one starts.
var ErrNotReady = errors.New("the mover is not ready")

// New makes the movers of a VM, which has none yet. EndLeft must be called next.
func New(c Config) *Movers { return &Movers{config: c, leftGone: make(chan struct{})} }

// Kill kills a mover, and doesn't wait.
func (m *Mover) Kill() {
	m.killed.Store(true)
	m.proc.Kill()
}

// Failed says whether it is known to have failed to start.
func (m *Mover) Failed() bool { return await.Closed(m.ready) && m.failure != nil }

// Ready is closed when it has started, or can't.
func (m *Mover) Ready() <-chan struct{} { return m.ready }

// Exited is closed when its process has ended.
func (m *Mover) Exited() <-chan struct{} { return m.exited }

// Await waits until it is ready, as it initialises CUDA first. again says that it was stopping or
// killed, and has ended or lingers: the next one has to be asked for.
func (s *Movers) Await(m *Mover) (again bool, err error) {
	s.mu.Lock()
	stopping := m.stopping
	s.mu.Unlock()
	if !stopping {
		<-m.ready
	}
	if stopping || m.failure == nil && m.killed.Load() {
		s.End(m) // it has no work, or is about to end
		return true, nil
	}
	return false, m.failure
}

// Current is the mover; nil: there is none. It doesn't wait.
func (s *Movers) Current() *Mover {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Kills is how often Kill was called. It doesn't wait.
func (s *Movers) Kills() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kills
}

// Need returns the mover. If there is none that works it starts one with a message, without waiting
// until it is ready. kills is what Kills said before it was found that a mover is needed: one that
// is started is killed if Kill has been here since, as the one that it didn't find.
func (s *Movers) Need(start Message, kills uint64) (*Mover, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if m := s.Current(); m != nil && !await.Closed(m.exited) && !m.Failed() {
		return m, nil
	}
	m, err := s.start(start)
	if err == nil && s.Kills() != kills { // it is the current one by now: the next Kill finds it
		m.Kill()
	}
	return m, err
}

// Connect returns a worker's end of a connection to a mover, for which Await has waited. It doesn't
// wait. The driver vouches for what may be copied for that worker's channel at an address of guest
// memory; 0: it doesn't vouch for anything.
func (s *Movers) Connect(m *Mover, channel int, vouchers uint64) (link.Half, error) {
	s.mu.Lock()
	ready := m != nil && m == s.current && await.Closed(m.ready) && m.failure == nil &&
		!m.stopping && !m.killed.Load()
	s.mu.Unlock()
	if !ready {
		return link.None, ErrNotReady
	}
	worker, far, err := link.New()
	if err != nil {
		return link.None, err
	}
	defer far.Close()
	attach := &handover.Message{Kind: handover.KindAttach, Channel: channel, Vouchers: vouchers}
	if err := m.conn.Tell(attach, far.Put(attach)); err != nil {
		worker.Close()
		return link.None, fmt.Errorf("attach to the mover: %w", err)
	}
	return worker, nil
}

// start starts a mover, and doesn't wait until it is ready.
func (s *Movers) start(start Message) (*Mover, error) {
	conn, remote, err := handover.Pair()
	if err != nil {
		return nil, err
	}
	defer remote.Close()
	proc, err := s.config.Spawn(remote)
	if err != nil {
		conn.Close()
		return nil, err
	}
	m := &Mover{proc: proc, ready: make(chan struct{}), exited: make(chan struct{})}
	m.conn = child.New(conn, s.config.Answer, child.RefuseOffer,
		func(read func()) { s.config.Go("a mover's messages", read) })
	started, err := m.conn.Ask(start())
	if err != nil {
		proc.Kill()
		_ = proc.Wait()
		conn.Close()
		return nil, err
	}
	s.mu.Lock()
	s.current = m
	s.mu.Unlock()
	s.config.Go("the mover's start", func() {
		defer close(m.ready)
		err := started(handover.KindReady, s.config.Start)
		switch {
		case err == nil:
			s.config.Serves(m.proc, m.conn)
		case !m.killed.Load(): // one that was killed hasn't failed: who needs it gets another
			m.failure = err
			m.Kill()
		}
	})
	s.config.Go("the mover's end", func() { s.awaitEnd(m) })
	return m, nil
}

// awaitEnd waits for a mover's end. Copies in progress fail, and the next worker gets a new one.
func (s *Movers) awaitEnd(m *Mover) {
	err := m.proc.Wait()
	s.config.Over(m.proc)
	m.conn.Close()
	if !m.conn.Quiet() {
		s.config.Unmarked()
	}
	close(m.exited)
	child.SayEnded(s.config.Log, "mover", err, m.killed.Load())
	s.mu.Lock()
	if s.current == m {
		s.current = nil
	}
	s.mu.Unlock()
	s.endLinger(m)
	s.config.Ended()
}

// End kills a mover, and waits for its end for as long as a process may take. After that it
// lingers.
func (s *Movers) End(m *Mover) {
	m.Kill()
	s.config.Ending(m)
	if !await.Within(s.config.Exit, m.exited) {
		s.leave(m)
	}
}

// GiveUp has the mover linger, if there is one that was killed. It doesn't wait.
func (s *Movers) GiveUp() {
	if m := s.Current(); m != nil && m.killed.Load() {
		s.leave(m)
	}
}

// leave has one linger that doesn't end.
func (s *Movers) leave(m *Mover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if await.Closed(m.exited) || slices.Contains(s.linger, m) {
		return
	}
	s.config.Log.Error("a mover that was killed does not end: " +
		"memory of programs that end stays pinned; see the kernel's log")
	if s.current == m {
		s.current = nil
	}
	s.linger = append(s.linger, m)
}

// Kill kills the mover, if there is one, and those for which Need was called and that aren't there
// yet. It doesn't wait.
func (s *Movers) Kill() {
	s.mu.Lock()
	m := s.current
	s.kills++
	s.mu.Unlock()
	if m != nil {
		m.Kill()
	}
}

// Lingering has a channel for each mover that lingers now, which is closed when it has ended. It
// doesn't wait.
func (s *Movers) Lingering() (ends []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.linger {
		if !await.Closed(m.exited) { // awaitEnd may not have noticed yet
			ends = append(ends, m.exited)
		}
	}
	return ends
}

// endLinger is told that a mover has ended.
func (s *Movers) endLinger(m *Mover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.linger, m)
	if i < 0 {
		return
	}
	s.linger = slices.Delete(s.linger, i, i+1)
	if !m.left {
		s.config.Log.Warn("a mover that did not end when it was killed has ended")
	}
}
