// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// holding is how many movers and warm workers a VM has.
func (v *vm) holding() (movers, warm int) {
	if v.dev.movers.Current() != nil {
		movers = 1
	}
	all, _ := v.dev.ahead.Kept()
	return movers, len(all)
}

// mustHold waits until a VM has so many of both.
func (v *vm) mustHold(movers, warm int) {
	v.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		m, w := v.holding()
		if m == movers && w == warm {
			return
		}
		if time.Now().After(end) {
			v.t.Fatalf("%d movers and %d warm workers, want %d and %d", m, w, movers, warm)
		}
	}
}

// TestAnIdleVMHoldsNothing of the GPU: before its first program, and some time after the last.
func TestAnIdleVMHoldsNothing(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1", "idle-time=5ms")
	v.mustHold(0, 0)
	for range 3 {
		v.open(0)
		v.open(1)
		v.mustHold(0, 1)
		v.mustCopy(1)
		v.mustHold(1, 1)
		v.closeChannel(0)
		v.dev.ahead.EndIdle() // ends nothing: another program runs
		v.mustHold(1, 1)
		v.closeChannel(1)
		v.mustHold(0, 0)
	}
	if len(v.dev.movers.Lingering()) > 0 {
		t.Error("a mover lingers")
	}
}

// TestIdleTimeChanges while the VM is idle: the new time holds at once.
func TestIdleTimeChanges(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1", "idle-time=never")
	v.open(0)
	v.mustCopy(0)
	v.closeChannel(0)
	v.mustHold(1, 1)
	for _, bad := range []string{"", "0", "-1s", "25h", "ever"} {
		if err := v.dev.Set("idle-time=" + bad); err == nil {
			t.Errorf("idle-time=%s was taken", bad)
		}
	}
	if err := v.dev.Set("idle-time=1ms"); err != nil {
		t.Fatal(err)
	}
	v.mustHold(0, 0)
	if err := v.dev.Set("idle-time=never"); err != nil {
		t.Fatal(err)
	}
	v.mustHold(0, 1)
}

// stopCounter starts movers, and counts how often they are asked to stop.
type stopCounter struct {
	stubs
	mu      sync.Mutex
	stopped int
	deaf    bool // they don't answer
}

func (s *stopCounter) Mover(control *os.File) (Process, error) {
	return s.start(control, func(x *stub) {
		for {
			kind, err := x.Receive()
			if err != nil {
				return
			}
			if kind == handover.KindStop {
				s.mu.Lock()
				s.stopped++
				s.mu.Unlock()
				if s.deaf {
					<-x.Killed
					return
				}
			}
			if a := answers[kind]; a != "" {
				_ = x.Conn.Send(&handover.Message{Kind: a}, nil)
			}
		}
	})
}

// TestAnIdleMoverIsStopped: it is asked to stop, and killed only if it doesn't answer. The next
// program gets another one.
func TestAnIdleMoverIsStopped(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		s := &stopCounter{deaf: deaf}
		v := greetedVM(t, s, limits, "idle-time=1ms")
		for range 2 {
			v.open(0)
			v.mustCopy(0)
			v.closeChannel(0)
			v.mustHold(0, 0)
		}
		s.mu.Lock()
		if s.stopped != 2 {
			t.Errorf("%d movers were asked to stop, want 2", s.stopped)
		}
		s.mu.Unlock()
	}
}

// TestProgramsOfAnIdleVM begin while the VM's last mover and warm worker end: each gets a mover
// that serves it.
func TestProgramsOfAnIdleVM(t *testing.T) {
	v := greetedVM(t, &stubs{}, limits, "warm-workers=1", "idle-time=1ms", "starts=0")
	for range 100 {
		v.open(0)
		v.mustCopy(0)
		v.closeChannel(0)
	}
	v.mustHold(0, 0)
}
