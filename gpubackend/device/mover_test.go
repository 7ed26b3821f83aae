// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/wire"
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
	v.endWorker(0)
	<-s.killed
	v.post(128, wire.ControlRequest{Type: wire.ControlClose})
	if v.chainsCome(1, little) || v.chainsCome(0, little) {
		t.Error("pages went back, or CLOSE ended, before the mover had ended")
	}
	v.open(1)
	if n := s.movers.Load(); n != 2 {
		t.Errorf("%d movers were started", n)
	}
	close(s.end)
	v.reap(1, 3)
	v.reap(0, 1) // CLOSE
	v.closeChannel(1)
	if n := len(v.dev.movers.Lingering()); n != 0 {
		t.Errorf("%d movers linger", n)
	}
}
