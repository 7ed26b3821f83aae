// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/opening"
	"github.com/paracuda/paracuda/gpubackend/pace/pacetest"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// hasty is a VM that can start one worker at once, and then one a second.
func hasty(t *testing.T, settings ...string) (*vm, *counting, *pacetest.Clock) {
	t.Helper()
	clock, spawn := pacetest.NewClock(), &counting{}
	v := newTimedVM(t, spawn, Timeouts{}, clock, append(settings, "starts=1")...)
	v.hello()
	for range opening.Burst - 1 {
		v.dev.opening.Starts.Take()
	}
	return v, spawn, clock
}

func (v *vm) wantUnanswered() {
	v.t.Helper()
	if _, _, ok := v.queues[0].Driver.Reap(); ok {
		v.t.Fatal("an OPEN is answered before its turn")
	}
}

// TestStartsHaveAPace: an OPEN too early waits and doesn't fail, and one that can't have a worker
// takes no turn.
func TestStartsHaveAPace(t *testing.T) {
	v, spawn, clock := hasty(t)
	v.open(0)
	for range 5 {
		if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBusy {
			t.Fatalf("OPEN again: %d", a.Status)
		}
	}
	for c := range uint64(2) {
		v.post(128*c, wire.ControlRequest{Type: wire.ControlOpen, Channel: uint32(c + 1)})
	}
	clock.AwaitWaiters(2)
	for i := range 2 {
		v.wantUnanswered()
		if n, _ := spawn.counts(); n != 1+i {
			t.Errorf("%d workers were started, want %d", n, 1+i)
		}
		clock.Advance(time.Second)
		v.reap(0, 1)
	}
	for c := range uint64(2) {
		var r wire.ControlResponse
		if r.Decode(v.guest.Read(v.request+128*c+64,
			wire.ControlResponseSize)); r.Status != wire.StatusOk {
			t.Errorf("an OPEN that waited: status %d", r.Status)
		}
	}
}

// TestWarmStartsHaveAPace: warm workers start no faster than those of programs.
func TestWarmStartsHaveAPace(t *testing.T) {
	v, spawn, clock := hasty(t)
	if err := v.dev.Set("warm-workers=3"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		v.warmWorkers(1 + i)
		if n, _ := spawn.counts(); n != 1+i {
			t.Errorf("%d workers were started, want %d", n, 1+i)
		}
		if i < 2 {
			clock.AwaitWaiters(1)
			clock.Advance(time.Second)
		}
	}
}

// TestWaitingStartsEndWithTheQueue, and the VM isn't held up.
func TestWaitingStartsEndWithTheQueue(t *testing.T) {
	v, spawn, clock := hasty(t)
	v.open(0)
	v.post(0, wire.ControlRequest{Type: wire.ControlOpen, Channel: 1})
	clock.AwaitWaiters(1)
	v.close()
	if n, _ := spawn.counts(); n != 1 {
		t.Errorf("%d workers were started", n)
	}
}

// TestPaceChanges while the VM runs.
func TestPaceChanges(t *testing.T) {
	v, _, _ := hasty(t)
	if err := v.dev.Set("starts=0"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		v.open(0)
		v.closeChannel(0)
	}
}
