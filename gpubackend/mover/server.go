// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/proclimit"
	"github.com/paracuda/paracuda/virtqueue/dirtylog"
)

// Config is what a mover needs besides the messages of the device process.
type Config struct {
	Control *handover.Conn
	Log     *logrus.Entry
	// Spin is how long the loop polls with nothing to do before it sleeps; 0 is DefaultSpin.
	Spin time.Duration
	// Threads is how many cores the software engine uses; 0 is all.
	Threads int
	// Library is the CUDA driver's library; empty is the usual one.
	Library string
	// PCI is the folder in which PCI devices are looked up; empty is the usual one.
	PCI string
	// Threshold is the length from which a run goes to the copy engines; 0 is DefaultThreshold.
	Threshold uint64
	// Registered is how much guest memory is registered at a time; 0 is DefaultRegistered.
	Registered uint64
	// Mappings is how many mappings this process may have; 0 is what the host says.
	Mappings int
	// Confine is called before any worker is served, when all is open and loaded. May be nil.
	Confine func(gpu string) error
}

// Defaults, from measurements on an H100: where copy engines overtake the kernel; and granules that
// are so small that the first copy from one doesn't wait long (25 ms; 0.45 s for 1 GiB, which must
// be allocated if the guest never used it), and so large that the fixed cost of a registration is
// negligible.
const (
	DefaultSpin       = 200 * time.Microsecond
	DefaultThreshold  = 256 << 10
	DefaultRegistered = 64 << 20
)

// budget is how many requests of one connection are taken before the next one's turn.
const budget = 8

// server is the loop and what it owns.
type server struct {
	config Config
	log    *logrus.Entry
	engine engine
	memory *memory
	quota  *quota
	conns  []*conn
	tasks  chan errand
	over   chan struct{}  // closed when the loop has ended: no task runs any more
	reader sync.WaitGroup // goroutines that read sockets and may use waker
	wake   int            // readable when another goroutine has used waker
	waker  int
	fds    []unix.PollFd
	ended  func(j *job) // what the engine calls for a job that has ended
	worked bool         // ended was called in this round
	dirty  dirtylog.Switch
	result error
	done   bool
}

// Run serves until the device process sends stop or is gone. It locks the calling goroutine to its
// thread.
func Run(c Config) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, fds, err := c.Control.Receive()
	if err != nil {
		return fmt.Errorf("receive the guest: %w", unneeded(err))
	}
	s, err := newServer(c, m, fds)
	if err == nil && c.Confine != nil {
		err = c.Confine(m.GPU)
	}
	answer := &handover.Message{Kind: handover.KindReady}
	if err != nil {
		answer.Error = err.Error()
	}
	if e := c.Control.Send(answer, nil); err != nil || e != nil {
		if s != nil {
			s.leave()
		}
		if err == nil {
			return unneeded(e)
		}
		return errors.Join(err, e)
	}
	defer s.leave()
	s.reader.Go(s.receive)
	s.loop()
	return s.result
}

// ErrUnneeded is wrapped by the error of a mover whose device process has gone, or has given it up,
// before it was ready.
var ErrUnneeded = errors.New("nobody needs the mover any more")

// unneeded is the error of the control connection; what says that nobody is at its other end wraps
// ErrUnneeded.
func unneeded(err error) error {
	for _, gone := range []error{io.EOF, net.ErrClosed, unix.EPIPE, unix.ECONNRESET} {
		if errors.Is(err, gone) {
			return fmt.Errorf("%w: %w", ErrUnneeded, err)
		}
	}
	return err
}

// leave closes what is left of a server whose loop has ended. It doesn't wait for the goroutine
// that reads the control connection, which stays until that ends.
func (s *server) leave() {
	s.close()
	close(s.over)
	go func() {
		s.reader.Wait()
		for len(s.tasks) > 0 {
			handover.CloseFiles((<-s.tasks).fds)
		}
		handover.CloseFiles([]int{s.wake, s.waker})
	}()
}

func newServer(c Config, m *handover.Message, fds []int) (*server, error) {
	defer handover.CloseFiles(fds)
	if m.Kind != handover.KindStart {
		return nil, fmt.Errorf("unexpected message %q", m.Kind)
	}
	if c.Log == nil {
		c.Log = logrus.NewEntry(logrus.StandardLogger())
	}
	if c.Spin == 0 {
		c.Spin = DefaultSpin
	}
	if c.Threshold == 0 {
		c.Threshold = DefaultThreshold
	}
	if c.Registered == 0 {
		c.Registered = DefaultRegistered
	}
	if c.Mappings == 0 {
		c.Mappings = proclimit.Mappings()
	}
	s := &server{config: c, log: c.Log, memory: &memory{}, quota: newQuota(c.Mappings),
		tasks: make(chan errand, 16), over: make(chan struct{})}
	s.ended = s.end
	var err error
	if s.wake, s.waker, err = newWake(); err != nil {
		return nil, err
	}
	p := m.Policy
	if p == nil {
		p = &handover.Policy{}
	}
	if err := m.TakeLog(m.Name(fds).Log, &s.dirty); err != nil {
		return nil, err
	}
	if s.memory, _, err = s.memory.replaced(m.Memory, m.Name(fds).Memory); err != nil {
		handover.CloseFiles([]int{s.wake, s.waker})
		return nil, err
	}
	accounts, err := joinLedger(m.Entry, m.Name(fds).Ledger)
	if err == nil {
		s.engine, err = newEngine(&s.config, m.GPU, p, accounts, s.waker)
	}
	if err != nil {
		closeRegions(s.memory.regions)
		handover.CloseFiles([]int{s.wake, s.waker})
		return nil, err
	}
	return s, nil
}

// joinLedger makes the mover count in the VM's ledger, whose file came with the start message. The
// file stays the caller's.
func joinLedger(entry, file int) (*ledger.Process, error) {
	if file < 0 {
		return nil, nil
	}
	if entry != ledger.Mover {
		return nil, fmt.Errorf("join the ledger: entry %d isn't the mover's", entry)
	}
	own, err := unix.FcntlInt(uintptr(file), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("join the ledger: %w", err)
	}
	page, err := ledger.Open(own)
	if err != nil {
		return nil, fmt.Errorf("join the ledger: %w", err)
	}
	accounts := ledger.NewProcess()
	accounts.Join(page, entry)
	return accounts, nil
}

// close lets go of everything. Nothing of the guest is in use after it.
func (s *server) close() {
	s.drain()
	for _, c := range s.conns {
		c.closed = true
		c.release(s.engine)
	}
	for _, r := range s.memory.regions {
		s.engine.forget(r)
	}
	closeRegions(s.memory.regions)
	s.engine.close()
	s.conns, s.memory = nil, &memory{}
	// The descriptors of wake stay open until no goroutine reads a socket any more.
}

// errand is something for the loop to do. The files belong to run; they are closed if it is never
// called.
type errand struct {
	run func()
	fds []int
}

// do lets the loop run f, and says whether there still is a loop.
func (s *server) do(fds []int, f func()) bool {
	select {
	case s.tasks <- errand{f, fds}:
		notify(s.waker)
		return true
	case <-s.over:
		handover.CloseFiles(fds)
		return false
	}
}

// loop serves until done.
func (s *server) loop() {
	idle := time.Time{}
	for !s.done {
		if s.work() {
			idle = time.Time{}
			continue
		}
		if s.engine.busy() && s.engine.spins() {
			continue
		}
		now := time.Now()
		if idle.IsZero() {
			idle = now
		}
		if now.Sub(idle) >= s.config.Spin {
			s.sleep()
			idle = time.Time{}
		}
	}
}

// work does one round. It says whether there was anything to do.
func (s *server) work() bool {
	s.worked = s.runTasks()
	s.engine.poll(s.ended)
	if err := s.engine.broken(); err != nil && s.result == nil {
		s.result, s.done = err, true
	}
	for _, c := range s.conns {
		s.worked = s.serve(c) || s.worked
	}
	s.reap()
	return s.worked
}

// end answers a job.
func (s *server) end(j *job) {
	s.worked = true
	s.mark(j)
	j.conn.end(s.engine, j, j.status)
}

func (s *server) runTasks() (ran bool) {
	for {
		select {
		case t := <-s.tasks:
			t.run()
			ran = true
		default:
			return ran
		}
	}
}

// serve takes some of a connection's requests.
func (s *server) serve(c *conn) (worked bool) {
	for range budget {
		if c.closed {
			return worked
		}
		took, err := c.take(s.engine, s.memory)
		if err != nil {
			s.log.WithError(err).Warn("a worker's connection is closed")
			c.closed = true
			_ = c.socket.CloseWrite()
			return true
		}
		if !took {
			return worked
		}
		worked = true
	}
	return worked
}

// reap releases closed connections that have no jobs under way.
func (s *server) reap() {
	kept := s.conns[:0]
	for _, c := range s.conns {
		if c.closed && c.waiting != nil {
			c.end(s.engine, c.waiting, statusRange)
			c.waiting = nil
		}
		if c.closed && c.flying == 0 {
			c.release(s.engine)
			continue
		}
		kept = append(kept, c)
	}
	clear(s.conns[len(kept):])
	s.conns = kept
}

// sleep announces that the loop sleeps, looks once more, and waits for a worker, a task or the
// engine.
func (s *server) sleep() {
	s.fds = append(s.fds[:0], unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN})
	pending := false
	for _, c := range s.conns {
		c.ring.store(offMoverSleeping, 1)
		pending = pending || !c.closed && c.pending()
		s.fds = append(s.fds, unix.PollFd{Fd: int32(c.wake), Events: unix.POLLIN})
	}
	if !pending && len(s.tasks) == 0 {
		if _, err := unix.Ppoll(s.fds, nil, nil); err != nil && err != unix.EINTR {
			s.result, s.done = fmt.Errorf("poll: %w", err), true
		}
	}
	for i, c := range s.conns {
		c.ring.store(offMoverSleeping, 0)
		if s.fds[i+1].Revents != 0 && !drain(c.wake) {
			c.closed = true
		}
	}
	if s.fds[0].Revents != 0 {
		drain(s.wake)
	}
}

// drain waits until no job is under way, not even a decoded one.
func (s *server) drain() {
	for {
		waiting := false
		s.engine.poll(s.ended)
		for _, c := range s.conns {
			if c.waiting != nil && s.engine.start(c.waiting) {
				c.waiting = nil
			}
			waiting = waiting || c.waiting != nil
		}
		if !waiting && !s.engine.busy() {
			return
		}
		if !s.engine.spins() {
			s.fds = append(s.fds[:0], unix.PollFd{Fd: int32(s.wake), Events: unix.POLLIN})
			_, _ = unix.Ppoll(s.fds, &unix.Timespec{Nsec: int64(10 * time.Millisecond)}, nil)
			drain(s.wake)
		}
	}
}
