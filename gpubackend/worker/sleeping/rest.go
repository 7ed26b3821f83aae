// SPDX-License-Identifier: Apache-2.0

package sleeping

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
)

// Queue is the channel's queue, about which a kick wakes a sleeping worker.
type Queue interface {
	// EnableKick says whether there is something in it already.
	EnableKick() (more bool, err error)
	DisableKick()
}

// Gate is the gate of the VM, if it has one.
type Gate interface {
	// Soon says whether the worker waits for the gate, which is about to open.
	Soon() bool
	// InFlight says whether somebody waits for the worker's work to end.
	InFlight() bool
	// Unfinished says whether work may be on the GPU.
	Unfinished() bool
	// Watch is called while there is nothing to do.
	Watch(q admission.Pause)
	// WaitFD is readable when the gate opens, if the worker waits for that; -1: it doesn't.
	WaitFD() int
}

// Calls are calls that wait for the GPU.
type Calls interface {
	Len() int
	// Announced is the answer that the device writes, if nothing else is waited for.
	Announced() (slot uint16, seq uint32, ok bool)
	// Settle does what there is time for while nothing happens.
	Settle()
}

// Copies are copies of the guest's.
type Copies interface {
	Active() bool
	// GoOn says whether copies whose end nobody tells should still be under way.
	GoOn(now time.Time) bool
}

// HostFuncs are host functions of the guest's.
type HostFuncs interface {
	Busy() bool
	Advance() (moved bool)
}

// Config is what a Sleeping needs.
type Config struct {
	Files     *Files
	Arena     func() *arena.Arena // nil before there is one
	Queue     Queue
	Gate      Gate
	Calls     Calls
	Copies    Copies
	HostFuncs HostFuncs
	// Mover is readable when the mover has done something. nil: there is none.
	Mover interface{ FD() int }
	// Held says whether commands stay in the ring.
	Held func() bool
	// Grows is when a batch that grows ends at the latest; zero: none grows.
	Grows func() time.Time
	// Spin is how long the policy makes the worker poll.
	Spin func() time.Duration
	// Watchdog is told while the worker waits for something to do.
	Watchdog interface{ SetAsleep(yes bool) }
	Count    func(handover.Counter, uint64)
}

// Sleeping passes the time in which there is nothing to do.
type Sleeping struct {
	Config
	quiet quiet
}

// New returns a Sleeping for a worker that has something to do.
func New(c Config) *Sleeping { return &Sleeping{Config: c} }

// Waiting calls are polled even while the worker sleeps: the pause grows with the time in which
// nothing has happened, so that it makes a wait longer by at most this part.
const (
	pausePart = 64
	minPause  = 20 * time.Microsecond
	maxPause  = time.Millisecond
)

// Pause is how long to pause between two looks at something that has already taken that long.
func Pause(took time.Duration) time.Duration {
	return min(max(took/pausePart, minPause), maxPause)
}

// napUntil is for how long a worker whose guest waits only naps, so that it needs no kick, which
// costs the guest a system call. After this time a kick makes the wait less than a hundredth
// longer.
const napUntil = 10 * time.Millisecond

// maxNap is how late a command that comes during a nap may be seen.
const maxNap = 100 * time.Microsecond

// gatePause is the longest pause of a worker while the arbiter waits for its work to end.
const gatePause = 25 * time.Microsecond

// closedPause is the longest pause of a worker that waits for its VM's turn, so that the wait is
// counted while it lasts.
const closedPause = time.Second

// settleAfter is how long nothing must have happened before the driver is asked about work whose
// end it hasn't noticed.
const settleAfter = 20 * time.Microsecond

// Sharply makes the kernel end the calling thread's pauses on time, not up to 50 us late.
func Sharply() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// Stir notes that something has happened.
func (s *Sleeping) Stir() { s.quiet.end() }

// Rest is called when there is nothing to do: it returns at once while the policy makes the worker
// poll, and sleeps after that.
func (s *Sleeping) Rest() error {
	now, spin, waits := time.Now(), s.Spin(), s.waits()
	idle := s.quiet.goOn(now, spin, waits)
	if idle >= min(spin, settleAfter) {
		s.Calls.Settle()
	}
	s.Gate.Watch(admission.Pause{Now: now, Since: s.quiet.since, Idle: idle, Spin: spin,
		Waits: waits, Held: s.Held()})
	switch {
	case idle < spin, s.quiet.due(spin), s.Gate.Soon(),
		s.Copies.GoOn(now) && idle < wire.CopySpins*spin:
		return nil
	case s.Gate.InFlight() && idle < napUntil:
		if s.Held() || !s.Arena().Pending() {
			return s.poll(gatePause)
		}
		return nil
	case spin > 0 && waits && idle < napUntil:
		return s.poll(min(s.pause(idle), maxNap))
	}
	return s.sleep(idle)
}

// waits says whether calls wait for the GPU, which has no descriptor to sleep on.
func (s *Sleeping) waits() bool { return s.Calls.Len() > 0 || s.Copies.Active() }

// sleep waits for the guest, the mover or the device process, after announcing it and looking once
// more.
func (s *Sleeping) sleep(idle time.Duration) error {
	if held, a := s.Held(), s.Arena(); a != nil && (!held || s.HostFuncs.Busy()) {
		a.SetSleeping(true)
		defer a.SetSleeping(false)
		if !held && a.Pending() || s.HostFuncs.Advance() {
			return nil
		}
	}
	more, err := s.Queue.EnableKick()
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	defer s.Queue.DisableKick()
	if more {
		return nil
	}
	s.Count(handover.Sleeps, 1)
	s.Watchdog.SetAsleep(true)
	defer s.Watchdog.SetAsleep(false)
	return s.poll(s.pause(idle))
}

// pause is how long to sleep at most. It is without end (negative), unless
//   - calls wait for the GPU,
//   - the gate must be watched, since work is in flight, or will be as soon as the gate isn't free,
//   - a batch grows, or
//   - commands wait for the gate.
func (s *Sleeping) pause(idle time.Duration) time.Duration {
	pause := time.Duration(-1)
	if s.waits() || s.Gate.Unfinished() {
		pause = Pause(idle)
	}
	if until := s.Grows(); !until.IsZero() {
		if left := max(time.Until(until), 0); pause < 0 || left < pause {
			pause = left
		}
	}
	if pause < 0 && s.Gate.WaitFD() >= 0 {
		pause = closedPause
	}
	return pause
}

// poll waits for all files.
func (s *Sleeping) poll(pause time.Duration) error {
	fds := make([]unix.PollFd, ownFiles, ownFiles+2)
	if s.Mover != nil && s.Copies.Active() {
		fds = append(fds, unix.PollFd{Fd: int32(s.Mover.FD()), Events: unix.POLLIN})
	}
	if fd := s.Gate.WaitFD(); fd >= 0 {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	return s.wait(fds, pause)
}

func (s *Sleeping) wait(fds []unix.PollFd, pause time.Duration) error {
	kicked, err := s.Files.wait(fds, pause)
	if kicked {
		s.Count(handover.Kicks, 1)
	}
	return err
}

// AwaitKick waits until the guest's driver kicks for commands, or something else wakes the worker,
// and says whether there are commands. The driver kicks for commands even if the queue doesn't ask
// for kicks.
func (s *Sleeping) AwaitKick() (commands bool, err error) {
	if a := s.Arena(); a != nil {
		a.SetSleeping(true)
		defer a.SetSleeping(false)
		if a.Pending() {
			return true, nil
		}
	}
	return false, s.wait(make([]unix.PollFd, ownFiles), -1)
}
