// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/turns"
)

// loop is the goroutine that owns the scheduler and the members, and what others need to reach it.
type loop struct {
	scheduler *turns.Scheduler
	members   map[turns.ID]*member
	names     gpuNames
	table     *policy.Table
	clock     clock
	beat      turns.Time // when the next is due
	memories  memories
	claims    map[*claim]bool
	warm      int // workers that the VMs of a GPU may keep ready together

	wake int // event descriptor: there is something in asked
	// poll is unix.Ppoll. Simulations have another one: their time isn't the host's.
	poll func([]unix.PollFd, *unix.Timespec, *unix.Sigset_t) (int, error)

	mu    sync.Mutex
	asked []func()
	ended bool

	polled []unix.PollFd // scratch of sleep
	order  []*member     // in the order of polled
	ending []*member     // scratch of watch
}

func newLoop() (*loop, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an event: %w", err)
	}
	return &loop{
		scheduler: turns.New(turns.Config{}), members: map[turns.ID]*member{}, names: gpuNames{},
		table: &policy.Table{}, wake: wake, poll: unix.Ppoll, memories: memories{},
		warm: DefaultWarm, claims: map[*claim]bool{},
	}, nil
}

// do lets the loop call a function, and waits for that. It says whether the function was called.
func (l *loop) do(f func()) bool {
	done := make(chan struct{})
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.asked = append(l.asked, func() { f(); close(done) })
	l.mu.Unlock()
	_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-done
	return true
}

// end makes run return.
func (l *loop) end() {
	l.do(func() {
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	})
}

// ownThread gives the loop's goroutine a thread of its own, which is woken in time.
func ownThread() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // or turns end 50 us late
}

// run is the loop.
func (l *loop) run() {
	for {
		l.answer()
		l.mu.Lock()
		ended := l.ended && len(l.asked) == 0
		l.mu.Unlock()
		if ended {
			break
		}
		now := l.clock.now()
		if now >= l.beat {
			l.heartbeat(now)
		}
		if now >= l.scheduler.Deadline() {
			l.look(now)
			l.scheduler.Tick(now)
			l.apply()
		}
		if !l.watch() {
			l.sleep()
			l.listen()
		}
	}
	for _, m := range l.members {
		m.page.Set(gate.Unshared)
		m.page.Close()
	}
	unix.Close(l.wake)
}

// answer calls the functions that others passed to do.
func (l *loop) answer() {
	l.mu.Lock()
	asked := l.asked
	l.asked = nil
	l.mu.Unlock()
	for _, f := range asked {
		f()
	}
}

// heartbeat shows that the arbiter lives, looks at all members, and repairs what others wrote.
func (l *loop) heartbeat(now turns.Time) {
	l.beat = now + beatEvery
	l.scheduler.EachStats(now, func(id turns.ID, s turns.Stats) {
		l.members[id].held.look(now, s.Held)
		l.members[id].working(now, s.Held)
	})
	for id, m := range l.members {
		m.page.Beat(Now())
		m.page.SetTurn(m.turn())
		if m.page.State() != m.state() {
			m.page.Set(m.state())
		}
		if !m.gate.Free {
			l.scheduler.Report(now, id, m.demand())
		}
	}
	l.apply()
	l.lookAtMemory(now)
}

// look looks at members whose gate is open: they don't ring when they begin again in their turn.
func (l *loop) look(now turns.Time) {
	for id, m := range l.members {
		if m.gate.Open && !m.gate.Free {
			l.scheduler.Report(now, id, m.demand())
		}
	}
}

// maxWatch is for how long the loop watches at a time; it hears nobody else meanwhile.
const maxWatch = 500 * time.Microsecond

// watch polls when a turn is about to begin, until the work before it has ended or the scheduler's
// deadline. It says whether it did so.
func (l *loop) watch() (watched bool) {
	soon := false
	for _, m := range l.members {
		soon = soon || m.gate.Soon
	}
	if !soon {
		return false
	}
	l.ending = l.ending[:0]
	for _, m := range l.members {
		if !m.gate.Open && m.demand().InFlight {
			l.ending = append(l.ending, m)
		}
	}
	for deadline := min(l.scheduler.Deadline(), l.clock.now()+maxWatch); ; {
		now := l.clock.now()
		over := now >= deadline
		for _, m := range l.ending {
			if d := m.demand(); !d.InFlight {
				l.scheduler.Report(now, m.id, d)
				over = true
			}
		}
		if over {
			l.apply()
			return true
		}
	}
}

// sleep waits for a bell, for what others ask, or for the time.
func (l *loop) sleep() {
	now := l.clock.now()
	until := min(l.beat, l.scheduler.Deadline())
	l.polled = append(l.polled[:0], unix.PollFd{Fd: int32(l.wake), Events: unix.POLLIN})
	l.order = l.order[:0]
	for _, m := range l.members {
		if again, deaf := m.deaf(now); deaf {
			until = min(until, again)
			continue
		}
		l.polled = append(l.polled, unix.PollFd{Fd: int32(m.page.BellFD()), Events: unix.POLLIN})
		l.order = append(l.order, m)
	}
	t := unix.NsecToTimespec(max(0, until-now).Nanoseconds())
	if _, err := l.poll(l.polled, &t, nil); err != nil && err != unix.EINTR {
		time.Sleep(time.Millisecond) // no memory, for example: don't spin
	}
	if l.polled[0].Revents != 0 {
		var b [8]byte
		_, _ = unix.Read(l.wake, b[:])
	}
}

// listen looks at the members whose bells rang.
func (l *loop) listen() {
	now := l.clock.now()
	for i, m := range l.order {
		if l.polled[i+1].Revents == 0 || l.members[m.id] != m {
			continue
		}
		m.heard(now)
		m.page.Listen()
		l.scheduler.Report(now, m.id, m.demand())
	}
	l.apply()
}

// apply opens and closes gates until nothing changes: after closing one, it looks for work that
// came through before.
func (l *loop) apply() {
	for range 4 {
		changes := l.scheduler.Changes()
		if len(changes) == 0 {
			return
		}
		now := l.clock.now()
		for _, g := range changes {
			m := l.members[g.VM]
			if m == nil {
				continue
			}
			m.gate = g
			m.page.SetTurn(m.turn())
			m.page.Set(m.state())
			if !g.Free {
				l.scheduler.Report(now, g.VM, m.demand())
			}
		}
	}
}
