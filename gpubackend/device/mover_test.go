// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/await"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
)

// slowMovers answer nothing but the start. The first to be killed takes until the test says so to
// end.
type slowMovers struct {
	stubs
	movers atomic.Int32
	killed chan struct{}
	end    chan struct{}
}

func newSlowMovers() *slowMovers {
	return &slowMovers{killed: make(chan struct{}), end: make(chan struct{})}
}

func (s *slowMovers) Mover(control *os.File) (Process, error) {
	if s.movers.Add(1) > 1 {
		return s.stubs.Mover(control)
	}
	return s.start(control, starts(func(x *stub) {
		for {
			if _, err := x.Receive(); err != nil {
				break
			}
		}
		close(s.killed)
		<-s.end
	}))
}

// chainsCome says whether a chain of a queue comes back in time.
func (v *vm) chainsCome(q int, within time.Duration) bool {
	v.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, _, ok := v.queues[q].Driver.Reap(); ok {
			return true
		}
	}
	return false
}

// endWorker kills a channel's worker.
func (v *vm) endWorker(channel int) {
	v.worker(channel).Kill()
}

const little = time.Second

// TestPagesStayUntilAKilledMoverHasEnded: that it is killed isn't enough, the GPU may still write
// for it.
func TestPagesStayUntilAKilledMoverHasEnded(t *testing.T) {
	t.Parallel()
	s := newSlowMovers()
	v := greetedVM(t, s, Timeouts{Answer: 500 * time.Millisecond})
	v.open(0)
	v.furnish(0)
	v.mustCopy(0)
	v.endWorker(0)
	<-s.killed
	if v.chainsCome(1, little) {
		t.Error("pages went back before the mover had ended")
	}
	close(s.end)
	v.reap(1, 3)
	v.closeChannel(0)
}

// TestAMoverThatDoesNotEnd keeps the pages of those it worked for, and nobody else.
func TestAMoverThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s := newSlowMovers()
	v := greetedVM(t, s, Timeouts{Answer: 500 * time.Millisecond, Exit: 300 * time.Millisecond})
	v.open(0)
	v.furnish(0)
	v.mustCopy(0)
	v.endWorker(0)
	<-s.killed
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	if v.chainsCome(1, little) || v.chainsCome(0, little) {
		t.Error("pages went back, or CLOSE ended, before the mover had ended")
	}
	v.open(1)
	v.mustCopy(1)
	if n := s.movers.Load(); n != 2 {
		t.Errorf("%d movers were started", n)
	}
	v.closeChannel(1)
	close(s.end)
	v.reap(1, 3)
	v.reap(0, 1) // CLOSE
	if n := len(v.dev.movers.Lingering()); n != 0 {
		t.Errorf("%d movers linger", n)
	}
}

// stuckMoverVM has a program on channel 0 that has copied, and one on channel 1. Their mover hangs
// in the kernel, so to speak, once it is killed.
func stuckMoverVM(t *testing.T) (*vm, *slowMovers, *logLines) {
	t.Helper()
	s := newSlowMovers()
	v, said := lingeringVM(t, s, s.end)
	v.mustCopy(0)
	v.open(1)
	return v, s, said
}

const linesOfStuckMovers = "a mover that was killed does not end"

// TestTheFrontEndIsAnsweredWhileAMoverDoesNotEnd: the VM's queues stop and start, its memory
// changes, and its driver begins anew. Each would fail for a front end that has no answer.
func TestTheFrontEndIsAnsweredWhileAMoverDoesNotEnd(t *testing.T) {
	v, s, said := stuckMoverVM(t)
	v.front.SetMemory(v.guest) // the mover doesn't answer, and is killed
	<-s.killed
	mustSay(t, said, linesOfStuckMovers, 1)
	v.endWorker(0)
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	for range 3 {
		v.front.Stop(v.queues...)
		v.front.Start(v.queues...)
		v.front.SetMemory(v.guest)
	}
	if v.chainsCome(1, little) || v.chainsCome(0, little) {
		t.Error("pages went back, or CLOSE ended, before the mover had ended")
	}
	v.mustCopy(1)
	if n := s.movers.Load(); n != 2 {
		t.Errorf("%d movers were started", n)
	}
	mustSay(t, said, linesOfStuckMovers, 1)
	close(s.end)
	v.reap(1, 3)
	v.reap(0, 1) // CLOSE
	v.open(0)
	v.mustCopy(0)
}

// TestResetWhileAMoverDoesNotEnd answers the front end, and the next driver's programs have another
// mover, and their channels.
func TestResetWhileAMoverDoesNotEnd(t *testing.T) {
	v, s, said := stuckMoverVM(t)
	v.front.MustSend(vhostuser.ResetDevice, nil)
	<-s.killed
	mustSay(t, said, "processes that were killed do not end", 1)
	v.nextDriver()
	v.open(0)
	v.mustCopy(0)
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.closeChannel(0)
}

// TestAMoverBeginsWithTheFirstCopy of a VM, and not with its driver, its warm workers or a program.
func TestAMoverBeginsWithTheFirstCopy(t *testing.T) {
	v := greetedVM(t, &stubs{}, Timeouts{}, "warm-workers=1")
	v.open(0)
	v.open(1)
	if v.dev.movers.Current() != nil {
		t.Fatal("there is a mover before the first copy")
	}
	v.mustCopy(0)
	m := v.dev.movers.Current()
	v.mustCopy(1)
	v.closeChannel(0)
	v.open(0)
	v.mustCopy(0)
	if v.dev.movers.Current() != m {
		t.Error("a VM had two movers")
	}
}

// TestAWorkerHasOneConnection to the mover, however often it asks.
func TestAWorkerHasOneConnection(t *testing.T) {
	said := make(chan handover.Message, 1000)
	v := greetedVM(t, &stubs{script: starts(func(s *stub) {
		for {
			m, fds, err := s.Conn.Receive()
			handover.CloseFiles(fds)
			if err != nil {
				return
			}
			said <- *m
		}
	})}, limits)
	v.open(0)
	v.mustCopy(0)
	if m := <-said; m.Kind != handover.KindMover || !m.Files.Conn || m.Error != "" {
		t.Fatalf("the first answer is %+v", m)
	}
	for range 100 {
		v.copies(0)
	}
	for range 100 {
		if m := <-said; m.Kind != handover.KindMover || m.Files.Conn || m.Error == "" {
			t.Fatalf("a later answer is %+v", m)
		}
	}
}

// TestMoverThatCannotStart: the copy learns it, the program goes on, and the next copy has another
// mover.
func TestMoverThatCannotStart(t *testing.T) {
	v := greetedVM(t, &badMovers{left: 1}, limits)
	v.open(0)
	if v.copies(0) {
		t.Fatal("connected to a mover that can't start")
	}
	v.mustCopy(0)
	v.closeChannel(0)
}

// badMovers has so many movers that refuse to start.
type badMovers struct {
	stubs
	left int
}

func (s *badMovers) Mover(control *os.File) (Process, error) {
	if s.left--; s.left < 0 {
		return s.stubs.Mover(control)
	}
	return s.start(control, func(x *stub) {
		_, _ = x.Receive()
		_ = x.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
		<-x.Killed
	})
}

// TestAMoverEndsWhenNothingIsCopied for long, although programs go on, if all of their workers give
// it up. The next copy begins another.
func TestAMoverEndsWhenNothingIsCopied(t *testing.T) {
	var gives atomic.Int32 // workers that give the mover up
	gives.Store(1)
	v := greetedVM(t, &stubs{script: starts(func(s *stub) {
		for {
			kind, err := s.Receive()
			if err != nil {
				return
			}
			if a := answers[kind]; a != "" {
				_ = s.Conn.Send(&handover.Message{Kind: a}, nil)
			}
			if kind == handover.KindRelease && gives.Add(-1) >= 0 {
				_ = s.Conn.Send(&handover.Message{Kind: kind}, nil)
			}
		}
	})}, limits, "idle-time=20ms")
	v.open(0)
	v.open(1)
	v.mustCopy(0)
	v.mustCopy(1)
	m := v.dev.movers.Current()
	if await.Within(little, m.Exited()) {
		t.Fatal("the mover ended although a worker has it")
	}
	gives.Store(1)
	if !await.Within(soon, m.Exited()) {
		t.Fatal("the mover doesn't end")
	}
	v.mustCopy(0)
	v.mustCopy(1)
	v.closeChannel(0)
	v.closeChannel(1)
}
