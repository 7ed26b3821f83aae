// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/gate"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/admission"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
)

func newGate(t testing.TB) *gate.Page {
	t.Helper()
	p, err := gate.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// newGatedRig is a rig whose worker stands at a gate.
func newGatedRig(t testing.TB, s gate.State) *rig {
	t.Helper()
	r := newRig(t)
	r.driver.keep = true
	r.gate = newGate(t)
	r.gate.Set(s)
	r.use(r.driver)
	return r
}

var (
	shut   = gate.State{Attend: true, InFlight: 2 * time.Millisecond}
	ajar   = gate.State{Open: true, Attend: true, InFlight: 2 * time.Millisecond}
	launch = []byte{1, 2, 3, 4}
)

// resting is from when on the arbiter is told that there is nothing to do, in a turn.
const resting = 10 * time.Microsecond

// watch is what the worker does at the gate when it has had nothing to do for so long.
func (r *rig) watch(now, since time.Time, idle, spin time.Duration) {
	r.door.Watch(admission.Pause{Now: now, Since: since, Idle: idle, Spin: spin,
		Waits: r.waiting.Len() > 0, Held: r.heldBack()})
}

// turn runs the ring's commands once.
func (r *rig) turn(t testing.TB) {
	t.Helper()
	if _, err := r.runCommands(); err != nil {
		t.Fatal(err)
	}
}

// TestClosedGateHoldsTheRing: work waits there, with what is behind it; what needs no GPU and is
// before it is answered.
func TestClosedGateHoldsTheRing(t *testing.T) {
	r := newGatedRig(t, shut)
	if got := r.call(t, gpubackend.OpCtxGetLimit, 0); got == -1 {
		t.Fatalf("a command that needs no GPU waits: %v", got)
	}
	r.launch(launch)
	seq := r.slot().Done + 1
	r.send(gpubackend.OpCtxGetLimit, true, seq, nil, 0)
	for range 10 {
		r.turn(t)
	}
	if n := len(r.driver.launches); n != 0 || r.slot().Done == seq || !r.door.Closed() {
		t.Fatalf("%d launches at a closed gate, closed %v", n, r.door.Closed())
	}
	if waiting, inFlight := r.gate.Demand(); !waiting || inFlight {
		t.Errorf("waiting %v, in flight %v", waiting, inFlight)
	}
	r.gate.Set(ajar)
	r.turn(t)
	if n := len(r.driver.launches); n != 1 || r.slot().Done != seq {
		t.Fatalf("%d launches at an open gate, answered %d", n, r.slot().Done)
	}
	if c := r.state.Counters(); c[handover.BatchesHeld] != 0 {
		t.Errorf("%d batches held: nothing was before the launch", c[handover.BatchesHeld])
	}
}

// TestGuestIsToldThatItIsHeld: its threads don't poll while their commands wait for the VM's turn.
// A stream that has enough to do is no reason.
func TestGuestIsToldThatItIsHeld(t *testing.T) {
	r := newGatedRig(t, shut)
	held := func() bool { return *word(r.mem[wire.ArenaHeaderHeldOffset:]) != 0 }
	for _, step := range []struct {
		name  string
		state gate.State
		work  int
		held  bool
	}{
		{"nothing to do", shut, 0, false},
		{"work at a closed gate", shut, 1, true},
		{"an open gate", ajar, 0, false},
		{"a full stream", ajar, 50, false},
		{"a closed gate again", shut, 1, true},
		{"nobody else is there", gate.Unshared, 0, false},
	} {
		for range step.work {
			r.launch(launch)
		}
		r.driver.ready = gpubackend.NotReady
		r.gate.Set(step.state)
		r.turn(t)
		if held() != step.held {
			t.Errorf("%s: held %v", step.name, held())
		}
	}
}

// TestBatchBeforeTheStop gets to the device, and its room in the ring to the guest.
func TestBatchBeforeTheStop(t *testing.T) {
	r := newGatedRig(t, ajar)
	r.driver.ready = gpubackend.NotReady
	for range 50 {
		r.launch(launch)
	}
	r.turn(t)
	n := len(r.driver.launches)
	if n < 2 || n > 20 || r.launcher.Collected() || r.arena.Unreleased() != 0 {
		t.Fatalf("%d of 50 unknown kernels were launched, collected %v, unreleased %d",
			n, r.launcher.Collected(), r.arena.Unreleased())
	}
	r.turn(t)
	if len(r.driver.launches) != n || !r.heldBack() || r.door.Closed() {
		t.Fatalf("a full stream gets %d more", len(r.driver.launches)-n)
	}
	r.driver.ready = gpubackend.Success
	for range 50 {
		r.turn(t)
	}
	if n := len(r.driver.launches); n != 50 {
		t.Errorf("%d of 50 launches", n)
	}
	if c := r.state.Counters(); c[handover.BatchesHeld] == 0 {
		t.Error("no batch was held")
	}
}

// TestWorkEndsAtTheGate: the arbiter hears of it when the device is idle, in all contexts.
func TestWorkEndsAtTheGate(t *testing.T) {
	r := newGatedRig(t, ajar)
	r.driver.ready = gpubackend.NotReady
	r.launch(launch)
	r.turn(t)
	since := time.Now()
	now := since
	for range 3 {
		now = now.Add(time.Millisecond)
		r.turn(t)
		r.watch(now, since, resting, time.Millisecond)
	}
	if _, inFlight := r.gate.Demand(); !inFlight {
		t.Fatal("work that goes on isn't in flight")
	}
	r.driver.ready = gpubackend.Success
	r.watch(now, since, resting-1, time.Millisecond)
	if _, inFlight := r.gate.Demand(); !inFlight {
		t.Error("the arbiter is told as soon as there is nothing to do in a turn")
	}
	r.watch(now, since, resting, time.Millisecond)
	if waiting, inFlight := r.gate.Demand(); waiting || inFlight {
		t.Errorf("waiting %v, in flight %v when all is done", waiting, inFlight)
	}
	if ns := r.state.Counters()[handover.GPUTime]; ns < 1e6 || ns > 1e9 {
		t.Errorf("%d ns of GPU time", ns)
	}
}

// TestWorkEndsForOthers: the arbiter hears at once of the end of work that it waits for, and of
// what a worker that doesn't poll has done before it sleeps.
func TestWorkEndsForOthers(t *testing.T) {
	for _, c := range []struct {
		then gate.State
		spin time.Duration
	}{{shut, time.Millisecond}, {ajar, 0}} {
		r := newGatedRig(t, ajar)
		r.launch(launch)
		r.turn(t)
		r.gate.Set(c.then)
		r.watch(time.Now(), time.Time{}, 0, c.spin)
		if _, inFlight := r.gate.Demand(); inFlight {
			t.Errorf("gate %+v, polling for %v: work that has ended is in flight", c.then, c.spin)
		}
	}
}

// TestFullStreamWakesTheRing: when work has ended the worker goes on at once, also one that doesn't
// poll, and although nothing is in flight any more.
func TestFullStreamWakesTheRing(t *testing.T) {
	r := newSleepingRig(t, ajar)
	r.driver.ready = gpubackend.NotReady
	for range 50 {
		r.launch(launch)
	}
	ended := make(chan error)
	go func() {
		for range 200 {
			if _, err := r.runCommands(); err != nil {
				ended <- err
			}
			if r.heldBack() {
				r.driver.ready = gpubackend.Success
			}
			if !r.arena.Pending() {
				break
			}
			if err := r.sleeping.Rest(); err != nil {
				ended <- err
			}
		}
		ended <- nil
	}()
	select {
	case err := <-ended:
		if n := len(r.driver.launches); n != 50 || err != nil {
			t.Errorf("%d of 50 launches, error %v", n, err)
		}
	case <-time.After(patience):
		t.Fatal("the worker sleeps although there is work, and room for it")
	}
}

// patience is for how long tests wait for what must happen, however busy the machine is.
const patience = time.Minute

// slept says whether the worker has gone to sleep.
func (r *rig) slept() bool { return r.state.Counters()[handover.Sleeps] > 0 }

// newSleepingRig is a gated rig that can sleep.
func newSleepingRig(t *testing.T, s gate.State) *rig {
	t.Helper()
	r := newGatedRig(t, s)
	r.withQueue(t)
	return r
}

// TestSleepAtTheGate: a worker that is held back sleeps although there are commands, and wakes when
// the gate opens. One that may have work on the GPU doesn't sleep for ever where there is a gate.
func TestSleepAtTheGate(t *testing.T) {
	r := newSleepingRig(t, shut)
	r.launch(launch)
	r.turn(t)
	begin := time.Now()
	open := time.AfterFunc(50*time.Millisecond, func() { r.gate.Set(ajar) })
	defer open.Stop()
	if err := r.sleeping.Rest(); err != nil {
		t.Fatal(err)
	}
	if slept := time.Since(begin); slept < 50*time.Millisecond || !r.gate.State().Open {
		t.Errorf("slept for %v, until the gate opens after 50ms", slept)
	}
	r.turn(t)
	if n := len(r.driver.launches); n != 1 {
		t.Fatalf("%d launches", n)
	}
	if !r.door.Unfinished() {
		t.Error("it would sleep for ever with work on the GPU")
	}
	r.gate.Set(gate.Unshared)
	r.turn(t)
	r.watch(time.Now(), time.Now(), time.Second, 0)
	if r.door.Unfinished() {
		t.Error("it would look for the end of work with nothing to do")
	}
}

// TestNoSleepBeforeTheGateOpens: a worker that is held back at a gate that is about to open doesn't
// go to sleep; at one that isn't, it does.
func TestNoSleepBeforeTheGateOpens(t *testing.T) {
	for _, soon := range []bool{true, false} {
		r := newSleepingRig(t, gate.State{Attend: true, Soon: soon})
		r.policy.SpinHostUs = 0
		r.launch(launch)
		r.turn(t)
		rested := make(chan error, 1)
		go func() { rested <- r.sleeping.Rest() }()
		if soon { // it stays closed, and the worker doesn't sleep all the same
			if err := <-rested; err != nil {
				t.Fatal(err)
			}
		} else {
			for end := time.Now().Add(patience); !r.slept(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("it doesn't sleep")
				}
			}
			r.gate.Set(ajar)
			if err := <-rested; err != nil {
				t.Fatal(err)
			}
		}
		if r.slept() == soon {
			t.Errorf("about to open: %v, slept: %v", soon, !soon)
		}
	}
}

// TestOtherContextKeepsTheTurn: the current context isn't the only one with work.
func TestOtherContextKeepsTheTurn(t *testing.T) {
	r := newGatedRig(t, ajar)
	r.objects.Add(object.Context, 7, 0)
	r.use(busyContext{r.driver, 7})
	r.launch(launch)
	r.turn(t)
	r.watch(time.Now(), time.Now(), 0, 0)
	if _, inFlight := r.gate.Demand(); !inFlight {
		t.Error("work in another context isn't in flight")
	}
}

// TestOpenGate: without files there is no gate, and an entry that is none is refused.
func TestOpenGate(t *testing.T) {
	if p, err := openGate(0, nil); p != nil || err != nil {
		t.Errorf("no files: %v, %v", p, err)
	}
	for _, entry := range []int{-1, gate.Entries} {
		var files []int
		for range handover.GateFiles {
			fd, err := eventfd.New()
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, fd)
		}
		if _, err := openGate(entry, files); err == nil {
			t.Errorf("entry %d: no error", entry)
		}
		if _, err := unix.FcntlInt(uintptr(files[0]), unix.F_GETFD, 0); err == nil {
			t.Errorf("entry %d: a file is left open", entry)
		}
	}
}

// BenchmarkLaunchAtAFreeGate is BenchmarkLaunch where there is a gate.
func BenchmarkLaunchAtAFreeGate(b *testing.B) {
	r := newGatedRig(b, gate.Unshared)
	r.driver.keep = false
	benchmarkLaunches(b, r)
}

// BenchmarkLaunchInATurn counts each launch, and fences what gets to the device.
func BenchmarkLaunchInATurn(b *testing.B) {
	r := newGatedRig(b, ajar)
	r.driver.keep = false
	benchmarkLaunches(b, r)
}
