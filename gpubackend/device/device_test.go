// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

func TestOpenAndClose(t *testing.T) {
	v := newVM(t, &processes{}, Timeouts{})
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBadRequest {
		t.Fatalf("OPEN before HELLO: %d", a.Status)
	}
	if a := v.ask(wire.ControlRequest{Type: wire.ControlHello,
		Number: wire.Version}); a.Number != 7 {
		t.Fatalf("generation %d", a.Number)
	}
	for range 3 {
		v.open(1)
		if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen,
			Channel: 1}); a.Status != wire.StatusBusy {
			t.Fatalf("OPEN twice: %d", a.Status)
		}
		v.furnish(1)
		v.greet(1)
		v.closeChannel(1)
		v.reap(2, 3)
	}
	v.closeChannel(1) // of a channel that isn't open
}

func TestOtherVersion(t *testing.T) {
	v := newVM(t, &stubs{}, Timeouts{})
	for range 100 {
		if a := v.ask(wire.ControlRequest{Type: wire.ControlHello,
			Number: 99}); a.Status != wire.StatusBadVersion {
			t.Fatalf("status %d", a.Status)
		}
	}
	v.hello()
}

// TestWorkerDies kills the worker at several points. All chains come back, and the channel can be
// opened again.
func TestWorkerDies(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	for point := range 4 {
		v.open(0)
		if point > 0 {
			v.furnish(0)
		}
		if point > 1 {
			v.greet(0)
		}
		if point > 2 { // the queue has one more chain, which the worker hasn't taken
			v.add(0, 3, wire.ChainHeader{Type: wire.ChainEvent})
		}
		v.worker(0).Kill()
		if want := []int{0, 3, 3, 4}[point]; want > 0 {
			v.reap(1, want)
		}
		v.closeChannel(0)
	}
	v.program(0)
}

// TestPauseAndResume stops and starts a queue as a paused machine does: the worker goes on.
func TestPauseAndResume(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	for i := range uint32(5) {
		v.front.Stop(v.queues...)
		if v.queues[1].Base != 3 {
			t.Fatalf("base %d, want 3", v.queues[1].Base)
		}
		v.front.Start(v.queues...)
		if r, err := v.call(0, 999, 10+i); err != nil || r != gpubackend.NotSupported {
			t.Fatalf("after resume: %d, %v", r, err)
		}
	}
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestPauseWhereIndicesWrap: an index of 0 doesn't always mean a new queue, since indices wrap.
// Programs go on, whichever queue has it, and the chains of a worker that has ended go back.
func TestPauseWhereIndicesWrap(t *testing.T) {
	v := newVM(t, &processes{}, Timeouts{})
	v.front.Stop(v.queues...)
	for i, q := range v.queues {
		q.Base = uint16(-[]int{2, 3, 4, 0}[i]) // where it wraps with HELLO and OPEN, and a program
		q.Driver.StartAt(q.Base)
	}
	v.front.Start(v.queues...)
	v.hello()
	v.program(0)
	pause := func(want ...uint16) {
		v.front.Stop(v.queues...)
		for i, base := range want {
			if v.queues[i].Base != base {
				t.Fatalf("queue %d stands at %d, want %d", i, v.queues[i].Base, base)
			}
		}
		v.front.Start(v.queues...)
	}
	pause(0, 0)
	if r, err := v.call(0, 999, 10); err != nil || r != gpubackend.NotSupported {
		t.Fatalf("after it went on: %d, %v", r, err)
	}
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestPauseBeforeTheFirstChain: a worker that has taken nothing, and whose base is 0, stays.
func TestPauseBeforeTheFirstChain(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.open(0)
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.furnish(0)
	v.greet(0)
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestQueueBeginsAnew: a driver that starts again gets a queue that the earlier driver's worker
// doesn't touch.
func TestQueueBeginsAnew(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	for range 3 {
		v.program(0)
		v.front.Stop(v.queues...)
		for i := range v.queues {
			v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
		}
		v.front.Start(v.queues...)
		v.hello()
		if used := v.queues[1].Driver.UsedIdx(); used != 0 {
			t.Fatalf("%d chains in a queue that is new", used)
		}
	}
	v.program(0)
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestDriverBeginsAnewBeforeTheFirstChain: a worker belongs to the earlier driver even if it has
// taken nothing.
func TestDriverBeginsAnewBeforeTheFirstChain(t *testing.T) {
	v := newVM(t, &processes{}, Timeouts{})
	for range 3 {
		v.hello()
		v.open(0)
		v.front.Stop(v.queues...)
		for i := range v.queues {
			v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
		}
		v.front.Start(v.queues...)
	}
}

// TestDriverBeginsAnewQueueByQueue: a front end restarts one queue after another, the control queue
// last. Then no channel belongs to the earlier driver any more.
func TestDriverBeginsAnewQueueByQueue(t *testing.T) {
	v := newVM(t, &processes{}, Timeouts{})
	for range 3 {
		v.hello()
		v.open(0)
		for i := len(v.queues) - 1; i >= 0; i-- {
			v.front.Stop(v.queues[i])
			v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
			v.front.Start(v.queues[i])
		}
	}
}

// TestOpenBeforeItsQueue asks for a channel while the front end hasn't started its queue yet.
func TestOpenBeforeItsQueue(t *testing.T) {
	v := greetedVM(t, &stubs{}, Timeouts{})
	v.front.Stop(v.queues[1])
	v.post(0, wire.ControlRequest{Type: wire.ControlOpen})
	v.front.Start(v.queues[1])
	v.reap(0, 1)
	if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != wire.StatusBusy {
		t.Fatalf("OPEN again: %d, want busy", a.Status)
	}
}

// TestPauseDuringOpen answers a request that was taken before the control queue stopped.
func TestPauseDuringOpen(t *testing.T) {
	v := newVM(t, &stubs{script: func(s *stub) {
		if _, err := s.Receive(); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
		_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
		polite(s)
	}}, Timeouts{})
	v.hello()
	v.post(0, wire.ControlRequest{Type: wire.ControlOpen})
	time.Sleep(10 * time.Millisecond)
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.reap(0, 1)
	v.closeChannel(0)
}

// TestMemoryChangesUnderLoad changes the memory table while requests and commands are in flight.
func TestMemoryChangesUnderLoad(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	extra := virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 1 << 32, Size: 1 << 20})
	region := vhostuser.AppendRegion(vhostusertest.Word(0), vhostusertest.Regions(extra)[0])
	for i := range uint32(20) {
		for k := range uint64(10) {
			v.post(k*128, wire.ControlRequest{Type: wire.ControlHello, Number: wire.Version})
		}
		if i%2 == 0 {
			v.front.MustSend(vhostuser.AddMemReg, region, extra.FDs[0])
		} else {
			v.front.MustSend(vhostuser.RemMemReg, region)
		}
		v.reap(0, 10)
		if r, err := v.call(0, 999, 10+i); err != nil || r != gpubackend.NotSupported {
			t.Fatalf("change %d: %d, %v", i, r, err)
		}
	}
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestSetCallAndPolicyWhileRunning changes what can be changed, while commands run.
func TestSetCallAndPolicyWhileRunning(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	for i := range uint32(50) {
		fd := vhostusertest.Eventfd(t)
		v.front.MustSend(vhostuser.SetVringCall, vhostusertest.Word(1), fd)
		v.front.MustSend(vhostuser.SetVringCall, vhostusertest.Word(0), fd)
		if err := v.dev.Set(fmt.Sprintf("batch-commands=%d", 1+i)); err != nil {
			t.Fatal(err)
		}
		if r, err := v.call(0, 999, 10+i); err != nil || r != gpubackend.NotSupported {
			t.Fatalf("turn %d: %d, %v", i, r, err)
		}
	}
	if err := v.dev.Set("channels=9"); !errors.Is(err, settings.ErrSetting) {
		t.Fatalf("channels of a running VM: %v", err)
	}
}

// limits make the device lose patience soon, but not with workers that only have to wait for a
// processor.
var limits = Timeouts{Start: 2 * time.Second, Answer: 2 * time.Second, Stop: time.Second}

// TestBadWorkers starts workers that misbehave. The device works on, and the channel can be opened
// again.
func TestBadWorkers(t *testing.T) {
	wait := func(s *stub) { <-s.Killed }
	for _, tt := range []struct {
		name   string
		script func(*stub)
		status uint32
	}{
		{"never starts", wait, wire.StatusNoWorker},
		{"ends at once", func(*stub) {}, wire.StatusNoWorker},
		{"refuses", func(s *stub) {
			_, _ = s.Receive()
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindReady, Error: "no"}, nil)
		}, wire.StatusNoWorker},
		{"answers something else", func(s *stub) {
			_, _ = s.Receive()
			_ = s.Conn.Send(&handover.Message{Kind: handover.KindDone}, nil)
			wait(s)
		}, wire.StatusNoWorker},
		{"ends after its start", starts(func(*stub) {}), wire.StatusOk},
		{"never answers", starts(wait), wire.StatusOk},
		{"floods", starts(func(s *stub) {
			for s.Conn.Send(&handover.Message{Kind: handover.KindStopped}, nil) == nil {
			}
		}), wire.StatusOk},
		{"sends files", starts(func(s *stub) {
			for range 1000 {
				_ = s.Conn.Send(&handover.Message{Kind: handover.KindDone,
					Files: handover.Files{Memory: 3}}, []int{0, 1, 2})
				_ = s.Conn.Send(&handover.Message{Kind: handover.KindDone,
					Files: handover.Files{Memory: -3, Kick: true}}, []int{0})
			}
			wait(s)
		}), wire.StatusOk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spawn := &stubs{script: tt.script}
			v := greetedVM(t, spawn, limits, "stop-grace=2s")
			for range 2 {
				if a := v.ask(wire.ControlRequest{Type: wire.ControlOpen}); a.Status != tt.status {
					t.Fatalf("OPEN: %d, want %d", a.Status, tt.status)
				}
				for range 300 { // more than fits its socket
					if err := v.dev.Set("batch-commands=7"); err != nil {
						t.Fatal(err)
					}
				}
				v.front.Stop(v.queues[1])
				v.front.Start(v.queues[1])
				v.closeChannel(0)
			}
			v.close()
		})
	}
}

// TestGrandchildHoldsTheConnection: a process that a worker has left behind doesn't keep its
// channel.
func TestGrandchildHoldsTheConnection(t *testing.T) {
	t.Parallel()
	spawn := &stubs{}
	var left []int
	spawn.script = starts(func(s *stub) {})
	v := greetedVM(t, holder{spawn, &left}, limits)
	v.open(0)
	v.closeChannel(0)
	v.open(0)
	v.close()
	for _, fd := range left {
		unix.Close(fd)
	}
}

// holder keeps every child's end of its connection open.
type holder struct {
	*stubs
	fds *[]int
}

func (h holder) Worker(control *os.File) (Process, error) {
	fd, err := unix.FcntlInt(control.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	*h.fds = append(*h.fds, fd)
	return h.stubs.Worker(control)
}

// TestControlFlood never lets the control queue run dry while it is stopped and started.
func TestControlFlood(t *testing.T) {
	v := greetedVM(t, &stubs{}, limits)
	// A driver that lies about what is available: heads again and again, and far too many.
	for i := range 50 {
		d := v.queues[0].Driver
		d.SetAvailIdx(d.AvailIdx() + uint16(1000*i))
		v.kick(0)
		v.front.Stop(v.queues[0])
		v.queues[0] = vhostusertest.NewQueue(t, v.guest, 0, queueSize)
		v.front.Start(v.queues[0])
		v.hello()
	}
}

// TestCyclesLeaveNothing opens and closes channels many times: nothing is left.
func TestCyclesLeaveNothing(t *testing.T) {
	v := greetedVM(t, &stubs{}, Timeouts{})
	cycle := func(n int) {
		for range n {
			v.open(2)
			v.add(2, 0, wire.ChainHeader{Type: wire.ChainEvent})
			v.closeChannel(2)
			v.reap(3, 1)
		}
	}
	cycle(50)
	files, goroutines, memory := leaks.Descriptors(t), runtime.NumGoroutine(), resident(t)
	cycle(1000)
	for end := time.Now().Add(soon); leaks.Descriptors(t) > files ||
		runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d files after %d, %d goroutines after %d", leaks.Descriptors(t), files,
				runtime.NumGoroutine(), goroutines)
		}
	}
	if now := resident(t); now > memory+64<<20 {
		t.Fatalf("%d MiB resident after %d", now>>20, memory>>20)
	}
}

func resident(t *testing.T) uint64 {
	runtime.GC()
	var size, pages uint64
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * uint64(syscall.Getpagesize())
}

// TestResetAndStart resets the device while a driver uses it, and starts it for the next one: it
// still has the memory table.
func TestResetAndStart(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	for range 3 {
		v.program(0)
		v.front.MustSend(vhostuser.ResetDevice, nil)
		v.nextDriver()
	}
	v.program(0)
	v.closeChannel(0)
	v.reap(1, 3)
}

// TestEndWithOpenChannels ends the session while programs work.
func TestEndWithOpenChannels(t *testing.T) {
	for _, spawn := range []Spawner{&processes{}, &stubs{}} {
		v := greetedVM(t, spawn, Timeouts{})
		v.open(0)
		v.furnish(0)
		v.post(0, wire.ControlRequest{Type: wire.ControlOpen, Channel: 1})
		v.close()
	}
}
