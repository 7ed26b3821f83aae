// SPDX-License-Identifier: Apache-2.0

package device

import (
	"sync"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// places is an arbiter that keeps what it was told last.
type places struct {
	mu    sync.Mutex
	place link.Place
}

func (p *places) Set(map[string]string) error { return nil }
func (p *places) Joined() bool                { return true }
func (p *places) VM() *link.VM                { return nil }

func (p *places) Stay(place *link.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place = *place
}

// swapped is a VM that takes turns in a GPU's memory.
type swapped struct {
	vm      *vm
	program *suspended // on channel 0
	arbiter *places
	order   link.Order
}

func newSwapped(t *testing.T) *swapped {
	t.Helper()
	page, arbiter := newLedger(t), &places{}
	v := newVMOf(t, Config{Spawn: &processes{}, Ledger: page, Sharer: arbiter},
		"stop-grace=200ms")
	s := &swapped{vm: v, program: suspendedVM(v, page), arbiter: arbiter}
	s.order.Room = 24 << 20
	s.grant()
	return s
}

func (s *swapped) grant() {
	s.order.Grants++
	s.vm.dev.place.Ordered(&s.order)
}

func (s *swapped) move(out bool) {
	s.order.Serial++
	s.order.Out = out
	s.vm.dev.place.Ordered(&s.order)
}

// until waits until the arbiter was told something.
func (s *swapped) until(what string, is func(p link.Place) bool) {
	s.vm.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		s.arbiter.mu.Lock()
		p := s.arbiter.place
		s.arbiter.mu.Unlock()
		if is(p) {
			return
		}
		if time.Now().After(end) {
			s.vm.t.Fatalf("%s: the arbiter was told %+v", what, p)
		}
	}
}

// begin sends a command and doesn't wait for its answer.
func (s *swapped) begin(op gpubackend.Op, words ...uint64) {
	s.vm.t.Helper()
	s.program.seq++
	s.vm.send(0, op, s.program.seq, words...)
}

// answer is that to the command which was sent last; false: there is none yet.
func (s *swapped) answer() (result gpubackend.Result, ok bool) {
	var slot wire.Slot
	slot.Decode(s.vm.guest.Read(s.vm.arena+wire.Slots, wire.SlotBytes))
	return gpubackend.Result(slot.Result), slot.Done == s.program.seq
}

func (s *swapped) mustAnswer(want gpubackend.Result) {
	s.vm.t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		if r, ok := s.answer(); ok {
			if r != want {
				s.vm.t.Fatalf("answer %v, want %v", r, want)
			}
			return
		}
		if time.Now().After(end) {
			s.vm.t.Fatalf("no answer: %+v, room %d", s.vm.dev.place.Place(), s.program.page.Room())
		}
	}
}

// TestRoom: an allocation that lacks room waits until there is some, also while the VM is out, or
// fails when the arbiter says that there will be none. Then the program goes on.
func TestRoom(t *testing.T) {
	s := newSwapped(t)
	s.program.allocate(8 << 20)
	for range 3 {
		s.begin(gpubackend.OpMemAlloc, 20<<20)
		s.until("more is wanted", func(p link.Place) bool { return p.Want >= p.Have+20<<20 })
		if _, ok := s.answer(); ok {
			t.Fatal("it doesn't wait")
		}
		s.order.Denials++
		s.vm.dev.place.Ordered(&s.order)
		s.mustAnswer(gpubackend.OutOfMemory)
		s.until("nothing is wanted", func(p link.Place) bool { return p.Want == 0 })
		s.program.mustHold()
	}
	s.begin(gpubackend.OpMemAlloc, 20<<20)
	s.until("more is wanted", func(p link.Place) bool { return p.Want >= p.Have+20<<20 })
	s.move(true)
	s.until("it is out", func(p link.Place) bool { return p.Out && p.Want >= p.Have+20<<20 })
	s.order.Room = 64 << 20
	s.order.Grants++
	s.move(false)
	s.mustAnswer(gpubackend.Success)
	s.until("it is in", func(p link.Place) bool { return !p.Out && p.Serial == s.order.Serial })
	s.program.mustHold()
}

// TestOrdered: a VM moves out and in by order, its owner can't interfere, and the arbiter learns
// when its program has work.
func TestOrdered(t *testing.T) {
	s := newSwapped(t)
	s.program.allocate(8 << 20)
	taken := inLedger(s.program.page)
	for range 3 {
		s.move(true)
		s.until("it is out", func(p link.Place) bool {
			return p.Out && p.Serial == s.order.Serial && p.Have == taken && p.Stays == aContext
		})
		s.vm.refused(admin.Request{Resume: true}, "memory-mode=swap", suspend.Suspended)
		s.vm.refused(admin.Request{Suspend: true}, "memory-mode=swap", suspend.Suspended)
		s.begin(gpubackend.OpCtxSynchronize)
		s.until("it has work", func(p link.Place) bool { return p.Out && p.Work })
		s.move(false)
		s.mustAnswer(gpubackend.Success)
		s.until("it is in", func(p link.Place) bool {
			return !p.Out && p.Serial == s.order.Serial && p.Have == taken
		})
		s.program.mustHold()
	}
	s.vm.mustSuspend()
	s.move(true)
	s.until("its owner has it out", func(p link.Place) bool {
		return !p.Out && p.Stopped && p.Serial == s.order.Serial
	})
	s.vm.mustResume()
	s.program.mustHold()
}

// TestArbiterAway: a VM that is out when the arbiter goes comes back, and is bounded no more.
func TestArbiterAway(t *testing.T) {
	s := newSwapped(t)
	s.program.allocate(8 << 20)
	s.move(true)
	s.until("it is out", func(p link.Place) bool { return p.Out })
	s.begin(gpubackend.OpMemAlloc, 20<<20)
	s.vm.dev.place.Alone(true)
	s.mustAnswer(gpubackend.Success)
	s.program.mustHold()
	if s.program.page.Room() != 0 {
		t.Errorf("it may have %d bytes", s.program.page.Room())
	}
	s.order.Serial++ // the order of the next arbiter, before its first beat
	s.vm.dev.place.Ordered(&s.order)
	s.vm.dev.place.Alone(false)
	if s.program.page.Room() != s.order.Room {
		t.Errorf("it may have %d bytes, want %d", s.program.page.Room(), s.order.Room)
	}
	s.until("it is out", func(p link.Place) bool { return p.Out && p.Serial == s.order.Serial })
	s.order.Room = 64 << 20
	s.move(false)
	s.program.mustHold()
}

// TestVictimWithoutRoom: a VM for whose memory the host has no room says so, and runs on.
func TestVictimWithoutRoom(t *testing.T) {
	s := newSwapped(t)
	s.program.allocate(8 << 20)
	s.vm.dev.config.HostMemory = func() (uint64, error) { return 0, nil }
	s.move(true)
	s.until("the order is over", func(p link.Place) bool {
		return p.Serial == s.order.Serial && !p.Out && !p.Stopped
	})
	s.program.mustHold()
}

// TestLiars: what workers claim to lack is bounded, and forgotten when they end.
func TestLiars(t *testing.T) {
	s := newSwapped(t)
	lie := &handover.Message{Kind: handover.KindRoom, Bytes: 1 << 63}
	for range 1000 {
		s.vm.dev.said(s.vm.worker(0), lie, nil)
	}
	if x := s.vm.dev.place.Place(); x.Want < x.Have || x.Want > 1<<49 {
		t.Errorf("%+v", x)
	}
	s.vm.open(1)
	gone := s.vm.worker(1)
	gone.Kill()
	<-gone.Gone()
	s.vm.dev.said(gone, lie, nil)
	if x := s.vm.dev.place.Place(); x.Want > x.Have+1<<48 {
		t.Errorf("a worker that isn't there: %+v", x)
	}
}
