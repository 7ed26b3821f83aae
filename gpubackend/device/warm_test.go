// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// warmWorkers waits until so many workers are kept, and all are warm.
func (v *vm) warmWorkers(n int) []*workers.Worker {
	v.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		warm, ready := v.dev.ahead.Kept()
		if len(warm) == n && ready == n {
			return warm
		}
		if time.Now().After(end) {
			v.t.Fatalf("%d warm workers, want %d", len(warm), n)
		}
	}
}

// worker is the one that a channel has.
func (v *vm) worker(channel int) *workers.Worker {
	return v.dev.channels.Worker(channel)
}

// starts checks how many programs started, and how many of them with a warm worker.
func (v *vm) starts(all, warm uint64) {
	v.t.Helper()
	if c := v.dev.Counters(); c[handover.Starts] != all || c[handover.WarmStarts] != warm {
		v.t.Fatalf("%d starts, %d of them warm; want %d and %d", c[handover.Starts],
			c[handover.WarmStarts], all, warm)
	}
}

// TestWarmWorkerServes gives programs, one after another, the worker that was warm before.
func TestWarmWorkerServes(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	for i := range uint64(4) {
		warm := v.warmWorkers(1)[0]
		v.open(1)
		if v.worker(1) != warm {
			t.Fatalf("program %d has a worker that was not warm", i)
		}
		v.furnish(1)
		v.greet(1)
		v.starts(i+1, i+1)
		if r, err := v.call(1, 999, 2); err != nil || r != gpubackend.NotSupported {
			t.Fatalf("call: %d, %v", r, err)
		}
		v.closeChannel(1)
		v.reap(2, 3)
	}
}

// TestWarmWorkersRunOut opens more channels than workers are kept: each gets one, warm or not.
func TestWarmWorkersRunOut(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=2")
	v.warmWorkers(2)
	for c := range uint32(3) {
		v.post(uint64(c)*128, wire.ControlRequest{Type: wire.ControlOpen, Channel: c})
	}
	v.reap(0, 3)
	v.furnish(2)
	v.greet(2)
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen,
		Channel: 2}); a.Status != wire.StatusBusy {
		t.Fatalf("OPEN again: %d, want busy", a.Status)
	}
	v.warmWorkers(2)
}

// TestBusyChannelTakesNoWarmWorker: what OPEN refuses costs nothing.
func TestBusyChannelTakesNoWarmWorker(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	v.open(0)
	warm := v.warmWorkers(1)[0]
	for range 20 {
		if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBusy {
			t.Fatalf("OPEN again: %d, want busy", a.Status)
		}
	}
	if now := v.warmWorkers(1)[0]; now != warm {
		t.Fatal("another worker is warm now")
	}
}

// TestWarmWorkerDies: programs start all the same, and later ones with warm workers again.
func TestWarmWorkerDies(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "warm-workers=2")
	for _, w := range v.warmWorkers(2) {
		w.Kill()
	}
	v.warmWorkers(0)
	v.program(0)
	v.starts(1, 0)
	v.closeChannel(0)
	v.reap(1, 3)
	v.warmWorkers(2)
	v.program(0)
	v.starts(2, 1)
}

// TestBadWarmWorkers can't be warmed, or say so and then take no channel. Every program gets a
// worker.
func TestBadWarmWorkers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script func(*stub)
	}{
		{"never warm", func(s *stub) { <-s.Killed }},
		{"ends at once", func(*stub) {}},
		{"refuses", func(s *stub) {
			_, _ = s.Receive()
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
			<-s.Killed
		}},
		{"answers something else", func(s *stub) {
			_, _ = s.Receive()
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindDone}, nil)
			<-s.Killed
		}},
		{"ends when it is warm", starts(func(*stub) {})},
		{"takes no channel", starts(func(s *stub) { <-s.Killed })},
		{"refuses its channel", starts(func(s *stub) {
			_, _ = s.Receive()
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
			<-s.Killed
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scripts := []func(*stub){tt.script, polite, tt.script, polite}
			v := greetedVM(t, &mixed{scripts: scripts}, limits, "warm-workers=1")
			for range 2 {
				v.open(0)
				v.closeChannel(0)
			}
			v.close()
		})
	}
}

// TestSetWarmWorkers changes how many are kept, and the policy with which they are started.
func TestSetWarmWorkers(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.warmWorkers(0)
	for _, n := range []int{2, 1, 3, 0, 1} {
		if err := v.dev.Set(fmt.Sprintf("warm-workers=%d", n)); err != nil {
			t.Fatal(err)
		}
		v.warmWorkers(n)
	}
	if err := v.dev.Set("warm-workers=60"); err != nil {
		t.Fatal(err)
	}
	before := v.warmWorkers(3) // one for each channel
	if err := v.dev.Set("soft-memory=128M"); err != nil {
		t.Fatal(err)
	}
	after := v.warmWorkers(3)
	for _, w := range before {
		<-w.Gone()
		for _, now := range after {
			if w == now {
				t.Fatal("a worker with an old policy is kept")
			}
		}
	}
	for _, bad := range []string{"-1", "65", "x", ""} {
		if err := v.dev.Set("warm-workers=" + bad); err == nil {
			t.Errorf("warm-workers=%s was taken", bad)
		}
	}
}

// TestWarmWorkerOutlivesChanges: memory, queues and drivers come and go, the warm worker stays and
// then serves.
func TestWarmWorkerOutlivesChanges(t *testing.T) {
	v := newVM(t, &processes{}, Timeouts{}, "warm-workers=1")
	warm := v.warmWorkers(1)[0]
	extra := virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 1 << 32, Size: 1 << 20})
	region := vhostuser.AppendRegion(vhostusertest.Word(0), vhostusertest.Regions(extra)[0])
	for range 3 {
		v.hello()
		v.front.MustSend(vhostuser.AddMemReg, region, extra.FDs[0])
		v.front.MustSend(vhostuser.RemMemReg, region)
		v.front.Stop(v.queues...)
		for i := range v.queues {
			v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
		}
		v.front.Start(v.queues...)
	}
	v.hello()
	v.open(0)
	if v.worker(0) != warm {
		t.Fatal("the worker is another")
	}
	v.furnish(0)
	v.greet(0)
	v.starts(1, 1)
}

// TestNoWarmWorkerBeforeTheDriver: a VM without a driver costs no device memory, nor does one that
// has ended.
func TestNoWarmWorkerBeforeTheDriver(t *testing.T) {
	spawn := &counting{}
	v := newVM(t, spawn, Timeouts{}, "warm-workers=2")
	v.warmWorkers(2)
	v.close()
	if started, ended := spawn.counts(); started != 2 || ended != 2 {
		t.Fatalf("%d workers started, %d ended", started, ended)
	}
	d := New(Config{GPU: "cuda", Settings: settings.Default(), Spawn: spawn, Log: quiet()})
	if all, _ := d.ahead.Kept(); len(all) != 0 {
		t.Fatal("workers are warmed for nobody")
	}
}

// counting counts the real workers that it started and that were waited for.
type counting struct {
	real           processes
	mu             sync.Mutex
	started, ended int
}

// counts is how many workers were started, and how many were waited for.
func (s *counting) counts() (started, ended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started, s.ended
}

func (s *counting) Mover(control *os.File) (Process, error) { return s.real.Mover(control) }

func (s *counting) Worker(control *os.File) (Process, error) {
	p, err := s.real.Worker(control)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	return counted{p, s}, nil
}

type counted struct {
	Process
	s *counting
}

func (c counted) Wait() error {
	err := c.Process.Wait()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.ended++
	return err
}

// TestWarmCyclesLeaveNothing opens, closes and changes settings often.
func TestWarmCyclesLeaveNothing(t *testing.T) {
	v := greetedVM(t, &stubs{}, Timeouts{}, "warm-workers=2")
	cycle := func(n int) {
		for i := range n {
			v.open(2)
			if err := v.dev.Set(fmt.Sprintf("batch-commands=%d", 1+i%2)); err != nil {
				t.Fatal(err)
			}
			v.closeChannel(2)
		}
		v.warmWorkers(2)
	}
	cycle(20)
	files, goroutines := leaks.Descriptors(t), runtime.NumGoroutine()
	cycle(300)
	const slack = 8 // workers that are ending, and those that take their place
	for end := time.Now().Add(soon); leaks.Descriptors(t) > files+slack ||
		runtime.NumGoroutine() > goroutines+slack; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d files after %d, %d goroutines after %d", leaks.Descriptors(t), files,
				runtime.NumGoroutine(), goroutines)
		}
	}
}
