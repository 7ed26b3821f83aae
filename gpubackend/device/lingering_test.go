// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// undead are workers of which the first answers nothing but the start, and doesn't end when it is
// killed, before the test says so. It hangs in the kernel, so to speak.
type undead struct {
	stubs
	workers atomic.Int32
	asked   chan handover.Kind // what it was asked
	end     chan struct{}
}

func newUndead() *undead {
	return &undead{asked: make(chan handover.Kind, 64), end: make(chan struct{})}
}

func (u *undead) Worker(control *os.File) (Process, error) {
	if u.workers.Add(1) > 1 {
		return u.stubs.Worker(control)
	}
	return u.start(control, starts(func(s *stub) {
		for {
			kind, err := s.Receive()
			if err != nil {
				break
			}
			u.asked <- kind
		}
		<-u.end
	}))
}

// short are limits that a test can wait for, and that workers keep which only have to wait for a
// processor.
var short = Timeouts{
	Answer: 500 * time.Millisecond, Stop: 500 * time.Millisecond, Exit: 300 * time.Millisecond,
}

// lingeringVM has a program on channel 0. Its processes end when end is closed, at the latest when
// the test does.
func lingeringVM(t *testing.T, processes Spawner, end chan struct{}) (*vm, *logLines) {
	t.Helper()
	t.Parallel()
	v := greetedVM(t, processes, short, "stop-grace=1s")
	t.Cleanup(func() {
		if !await.Closed(end) {
			close(end)
		}
	})
	said := v.listen()
	v.open(0)
	v.furnish(0)
	return v, said
}

// undeadVM has a program on channel 0 whose worker won't end, and one on channel 1.
func undeadVM(t *testing.T) (*vm, *undead, *logLines) {
	t.Helper()
	u := newUndead()
	v, said := lingeringVM(t, u, u.end)
	v.open(1)
	return v, u, said
}

// mustSay looks for a line of the log, n times.
func mustSay(t *testing.T, said *logLines, what string, n int) {
	t.Helper()
	end := time.Now().Add(soon)
	for strings.Count(said.String(), what) < n && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
	if got := strings.Count(said.String(), what); got != n {
		t.Errorf("%d times %q in the log, want %d:\n%s", got, what, n, said)
	}
}

const (
	linesOfStuck = "a worker that was killed does not end"
	linesOfEnded = "a worker that did not end when it was killed has ended"
)

// TestTheVMGoesOnWithoutAKilledWorkerThatDoesNotEnd: its queues stop and start, and other programs
// run, while its chains and its CLOSE wait for its end.
func TestTheVMGoesOnWithoutAKilledWorkerThatDoesNotEnd(t *testing.T) {
	v, u, said := undeadVM(t)
	for range 3 {
		v.front.Stop(v.queues...)
		v.front.Start(v.queues...)
	}
	if v.chainsCome(1, little) {
		t.Error("pages went back before the worker had ended")
	}
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	if v.chainsCome(0, little) {
		t.Error("CLOSE ended before the worker had")
	}
	v.closeChannel(1)
	v.open(1)
	v.open(2)
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBusy {
		t.Errorf("OPEN of its channel: status %d, want busy", a.Status)
	}
	v.front.Stop(v.queues...) // with CLOSE in progress
	v.front.Start(v.queues...)
	v.closeChannel(2)
	mustSay(t, said, linesOfStuck, 1)
	mustSay(t, said, linesOfEnded, 0)
	close(u.end)
	v.reap(1, 3)
	v.reap(0, 1) // CLOSE
	mustSay(t, said, linesOfEnded, 1)
	v.open(0)
	v.closeChannel(0)
}

// TestEndWhileTheQueuesAreStopped: what comes back meanwhile is returned when they go on.
func TestEndWhileTheQueuesAreStopped(t *testing.T) {
	v, u, said := undeadVM(t)
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	mustSay(t, said, linesOfStuck, 1)
	for end := time.Now().Add(soon); v.dev.parked.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("CLOSE doesn't wait for the worker")
		}
	}
	v.front.Stop(v.queues...)
	close(u.end)
	mustSay(t, said, linesOfEnded, 1)
	v.front.Start(v.queues...)
	v.reap(1, 3)
	v.reap(0, 1)
	v.open(0)
}

// TestMemoryChangesWhileAWorkerDoesNotEnd: what it has mapped stays so in that process.
func TestMemoryChangesWhileAWorkerDoesNotEnd(t *testing.T) {
	v, u, said := undeadVM(t)
	for range 2 {
		v.front.SetMemory(v.guest)
	}
	if v.chainsCome(1, little) {
		t.Error("pages went back before the worker had ended")
	}
	v.closeChannel(1)
	mustSay(t, said, linesOfStuck, 1)
	close(u.end)
	v.reap(1, 3)
}

// TestDriverBeginsAnewWhileAWorkerDoesNotEnd: it has all channels, and the old worker touches none.
func TestDriverBeginsAnewWhileAWorkerDoesNotEnd(t *testing.T) {
	v, u, said := undeadVM(t)
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	mustSay(t, said, linesOfStuck, 1)
	v.front.Stop(v.queues...)
	for i := range v.queues {
		v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
	}
	v.front.Start(v.queues...)
	v.hello()
	v.open(0)
	v.furnish(0)
	close(u.end)
	mustSay(t, said, linesOfEnded, 1)
	if v.chainsCome(1, little) || v.chainsCome(0, little) {
		t.Error("chains of the new driver were returned, or the old one's CLOSE was answered")
	}
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestResetWhileAWorkerDoesNotEnd answers the front end.
func TestResetWhileAWorkerDoesNotEnd(t *testing.T) {
	v, _, _ := undeadVM(t)
	v.front.MustSend(vhostuser.ResetDevice, nil)
	v.nextDriver()
	v.open(0)
	v.closeChannel(0)
}

// TestWorkerThatDoesNotStartNorEnd keeps its channel, and nobody else.
func TestWorkerThatDoesNotStartNorEnd(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	var n atomic.Int32
	s := &stubs{script: func(s *stub) {
		if n.Add(1) > 1 {
			polite(s)
			return
		}
		<-end
	}}
	limits := short
	limits.Start = 2 * time.Second
	v := greetedVM(t, s, limits)
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusNoWorker {
		t.Errorf("OPEN: status %d, want no worker", a.Status)
	}
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBusy {
		t.Errorf("OPEN of its channel: status %d, want busy", a.Status)
	}
	v.open(1)
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	close(end)
	v.closeChannel(0)
	v.open(0)
}

// mustBeFree fails the test if somebody keeps a lock of one of the device's parts.
func (v *vm) mustBeFree(while string) {
	v.t.Helper()
	free := make(chan struct{})
	go func() {
		v.dev.control.Runs()
		v.dev.strangers.Greeted()
		v.dev.channels.Serving()
		v.dev.ahead.Rested()
		v.dev.ram.SetLog(v.dev.ram.Log())
		v.dev.settings.Follow(7)
		close(free)
	}()
	if !await.Within(soon/4, free) {
		v.t.Errorf("the device's lock is held while %s", while)
	}
}

// TestNothingWaitsWithTheLock: whatever a process takes its time for, others go on.
func TestNothingWaitsWithTheLock(t *testing.T) {
	const long = 2 * soon
	patient := Timeouts{Start: long, Answer: long, Stop: long, Exit: long}
	t.Run("a worker starts", func(t *testing.T) {
		asked, answer := make(chan struct{}), make(chan struct{})
		v := greetedVM(t, &stubs{script: func(s *stub) {
			if _, err := s.Receive(); err != nil {
				return
			}
			close(asked)
			<-answer
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
			polite(s)
		}}, patient)
		v.post(0, wire.ControlRequest{Type: wire.ControlOpen})
		<-asked
		v.mustBeFree("a worker starts")
		close(answer)
		v.reap(0, 1)
	})
	t.Run("a worker takes the memory", func(t *testing.T) {
		u := newUndead()
		v := greetedVM(t, u, patient)
		defer close(u.end)
		v.open(0)
		memory := v.memory.Load()
		told := make(chan struct{})
		go func() {
			defer close(told)
			if err := v.dev.SetMemory(memory); err != nil {
				t.Error(err)
			}
		}()
		if kind := <-u.asked; kind != handover.KindMemory {
			t.Errorf("the worker was asked for %q", kind)
		}
		v.mustBeFree("a worker takes the memory")
		v.endWorker(0)
		u.end <- struct{}{}
		<-told
	})
	t.Run("a mover ends a worker's copies", func(t *testing.T) {
		s := newSlowMovers()
		v := greetedVM(t, s, patient)
		v.open(0)
		v.mustCopy(0)
		v.endWorker(0)
		v.mustBeFree("a mover ends a worker's copies")
		v.dev.movers.Kill()
		close(s.end)
	})
}
