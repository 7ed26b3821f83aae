// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestSuspend moves memory out and in again and again. While it is out, the GPU has none of it, and
// no command is executed.
func TestSuspend(t *testing.T) {
	s := newSuspended(t)
	for _, size := range []uint64{4096, 100000, 5 << 20, 12 << 20} {
		s.allocate(size)
	}
	taken := inLedger(s.page)
	for range 5 {
		m := s.mustSuspend()
		if m.Bytes+aContext != taken || m.Stays != aContext || inLedger(s.page) != aContext {
			t.Fatalf("%+v moved of %d bytes, %d are taken", m, taken, inLedger(s.page))
		}
		if x := s.dev.suspension.Status(); x.State != suspend.Suspended || x.Image != m.Bytes {
			t.Fatalf("%+v", x)
		}
		if f := s.dev.Figures(); f.State != "suspended" {
			t.Errorf("an arbiter is told %q", f.State)
		}
		s.refused(admin.Request{Suspend: true}, "the VM is suspended", suspend.Suspended)
		s.seq++
		s.send(0, gpubackend.OpCtxSynchronize, s.seq)
		time.Sleep(20 * time.Millisecond)
		var slot wire.Slot
		slot.Decode(s.guest.Read(s.arena+wire.Slots, wire.SlotBytes))
		if slot.Done == s.seq {
			t.Fatal("a command was executed while the VM is suspended")
		}
		if m := s.mustResume(); m.Bytes+aContext != taken || inLedger(s.page) != taken {
			t.Fatalf("%+v moved in, %d bytes are taken, before %d", m, inLedger(s.page), taken)
		}
		s.refused(admin.Request{Resume: true}, "the VM is running", suspend.Running)
		s.mustHold()
	}
	if x := s.dev.suspension.Status(); x.Image != 0 {
		t.Errorf("%+v in the end", x)
	}
}

// TestSuspendBusy: a kernel that never ends keeps a VM from being suspended, and goes on.
func TestSuspendBusy(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=200ms")
	c := v.count(0)
	v.refused(admin.Request{Suspend: true},
		"busy: device memory isn't moved:  (pid 9): drain: refused: "+
			"its work goes on: stop-grace=200ms", suspend.Running)
	before := c.read()
	for end := time.Now().Add(soon); c.read() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the kernel doesn't count any more")
		}
	}
	c.end()
	if err := v.dev.Set("stop-grace=20s"); err != nil {
		t.Fatal(err)
	}
	v.mustSuspend()
	v.mustResume()
	if r, err := v.call(0, gpubackend.OpCtxSynchronize, 100); r != 0 || err != nil {
		t.Fatalf("after resume: %d, %v", r, err)
	}
}

// TestSuspendKilling: a program whose kernel never ends is ended and named if that is wanted, and
// the others notice nothing.
func TestSuspendKilling(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=200ms")
	v.count(0)
	v.refused(admin.Request{Suspend: true}, "its work goes on", suspend.Running)
	a, err := v.change(admin.Request{Suspend: true, Kill: true})
	if err != nil || a.Moved == nil || len(a.Moved.Killed) != 1 ||
		a.Moved.Killed[0] != " (pid 9)" {
		t.Fatalf("%v, %+v", err, a.Moved)
	}
	if n := v.workers(); n != 0 || v.dev.suspension.State() != suspend.Suspended {
		t.Fatalf("%d workers are left; %+v", n, v.dev.suspension.Status())
	}
	v.mustResume()
}

// TestSuspendWithoutRoom changes nothing.
func TestSuspendWithoutRoom(t *testing.T) {
	s := newSuspended(t, "suspend-memory=12M")
	s.allocate(12 << 20)
	s.allocate(4096)
	s.refused(admin.Request{Suspend: true}, "suspend-memory=12M allows less", suspend.Running)
	s.mustHold()
	if err := s.dev.Set("suspend-memory=0"); err != nil {
		t.Fatal(err)
	}
	s.dev.config.HostMemory = func() (uint64, error) { return 1 << 20, nil }
	s.refused(admin.Request{Suspend: true}, "and the host has 1048576 for it", suspend.Running)
	s.dev.config.HostMemory = func() (uint64, error) { return 0, errors.New("can't say") }
	s.refused(admin.Request{Suspend: true}, "can't say", suspend.Running)
	s.mustHold()
	s.dev.config.HostMemory = image.Host()
	s.mustSuspend()
	s.mustResume()
	s.mustHold()
}

// TestResumeWithoutRoom: there is room for the memory of one of two programs, but not for both.
// Nothing is lost.
func TestResumeWithoutRoom(t *testing.T) {
	s := newSuspended(t)
	s.allocate(12 << 20)
	arena, context := s.arena, s.context
	s.arena = s.guest.Alloc(arenaBytes, 4096)
	s.program(1)
	s.retain(1, 2)
	if r, err := s.call(1, gpubackend.OpMemAlloc, 3, 12<<20); r != 0 || err != nil {
		t.Fatalf("allocate: %d, %v", r, err)
	}
	taken := inLedger(s.page)
	m := s.mustSuspend()
	if err := s.dev.Set("memory=32M"); err != nil {
		t.Fatal(err)
	}
	s.refused(admin.Request{Resume: true}, "nothing is lost", suspend.Suspended)
	if inLedger(s.page) != m.Stays || s.dev.suspension.Status().Image != m.Bytes {
		t.Fatalf("%d bytes are taken, %+v", inLedger(s.page), s.dev.suspension.Status())
	}
	if err := s.dev.Set("memory=0"); err != nil {
		t.Fatal(err)
	}
	s.mustResume()
	if inLedger(s.page) != taken {
		t.Errorf("%d bytes are taken, %d before", inLedger(s.page), taken)
	}
	s.arena, s.context = arena, context
	s.appended = s.count0(arena)
	s.mustHold()
}

// TestProgramsComeAndGo: while the VM is suspended, a program that starts waits, one that ends is
// gone, and so is one whose worker is killed.
func TestProgramsComeAndGo(t *testing.T) {
	s := newSuspended(t)
	s.allocate(12 << 20)
	s.open(1)
	s.open(2)
	s.mustSuspend()
	s.closeChannel(1)
	killed := s.worker(2)
	killed.Kill()
	<-killed.Gone()
	s.open(1) // it is suspended from its beginning
	arena, appended, context := s.arena, s.appended, s.context
	s.arena = s.guest.Alloc(arenaBytes, 4096)
	s.furnish(1)
	s.send(1, gpubackend.Op(wire.OpHello), 1, inBulk+1<<16, 0, inBulk, 1<<16)
	time.Sleep(20 * time.Millisecond)
	var slot wire.Slot
	if slot.Decode(s.guest.Read(s.arena+wire.Slots, wire.SlotBytes)); slot.Done == 1 {
		t.Fatal("a program that starts while the VM is suspended is served")
	}
	s.mustResume()
	for end := time.Now().Add(soon); slot.Done != 1; time.Sleep(time.Millisecond) {
		slot.Decode(s.guest.Read(s.arena+wire.Slots, wire.SlotBytes))
		if time.Now().After(end) {
			t.Fatal("it isn't served afterwards")
		}
	}
	s.arena, s.appended, s.context = arena, appended, context
	s.mustHold()
	s.mustSuspend()
	s.closeChannel(0)
	s.closeChannel(1)
	s.awaitTaken(s.page, 0)
	if m := s.mustResume(); m.Bytes != 0 || s.dev.suspension.Status().Image != 0 {
		t.Errorf("%+v moved in for programs that have ended", m)
	}
}

// TestPausedWhileSuspended: the VM's queues are stopped and started, and it is still suspended.
func TestPausedWhileSuspended(t *testing.T) {
	s := newSuspended(t)
	s.allocate(12 << 20)
	s.mustSuspend()
	s.front.Stop(s.queues...)
	s.front.Start(s.queues...)
	if taken := inLedger(s.page); taken != aContext {
		t.Fatalf("%d bytes are taken", taken)
	}
	s.mustResume()
	s.mustHold()
	// And the other way round.
	s.front.Stop(s.queues...)
	s.mustSuspend()
	s.mustResume()
	s.front.Start(s.queues...)
	s.mustHold()
}

// TestResetWhileSuspended: the programs end, and others wait until the VM is resumed.
func TestResetWhileSuspended(t *testing.T) {
	s := newSuspended(t)
	s.allocate(12 << 20)
	s.mustSuspend()
	s.dev.Reset()
	if x := s.dev.suspension.Status(); x.State != suspend.Suspended || x.Image != 0 {
		t.Fatalf("%+v", x)
	}
	s.awaitTaken(s.page, 0)
	s.mustResume()
}

// TestBadlySuspended: workers that lie, refuse, hang or die harm only themselves.
func TestBadlySuspended(t *testing.T) {
	const moved = 4 << 20
	answer := func(s *stub, kinds map[handover.Kind]handover.Message) {
		for {
			m, fds, err := s.Conn.Receive()
			handover.CloseFiles(fds)
			if err != nil {
				return
			}
			a, ok := kinds[m.Kind]
			if !ok {
				a.Kind = answers[m.Kind]
			}
			if a.Kind == "" {
				continue
			}
			if m.Turn != 0 && a.Turn == 0 {
				a.Turn = m.Turn
			}
			if a.Kind == "dies" {
				return
			}
			_ = s.Conn.Send(&a, nil)
		}
	}
	good := map[handover.Kind]handover.Message{
		handover.KindDrain:   {Kind: handover.KindDrained, Bytes: moved},
		handover.KindMoveOut: {Kind: handover.KindMovedOut},
		handover.KindMoveIn:  {Kind: handover.KindMovedIn},
	}
	dies, no := handover.Message{Kind: "dies"}, "no"
	for _, test := range []struct {
		name    string
		kind    handover.Kind
		does    handover.Message
		suspend string // the error; "" for none
		resume  string
		hangs   bool
	}{
		{"good", "", handover.Message{}, "", "", false},
		{"dies when it is drained", handover.KindDrain, dies, "", "", false},
		{"dies when it moves", handover.KindMoveOut, dies, "", "", false},
		{"dies when it moves in", handover.KindMoveIn, dies, "", "", false},
		{"says something else", handover.KindMoveOut, handover.Message{Kind: "x"}, "", "", false},
		{"hangs", handover.KindMoveIn, handover.Message{}, "", "", true},
		{"doesn't drain", handover.KindDrain,
			handover.Message{Kind: handover.KindDrained, Error: no}, "busy", "", false},
		{"answers an older request", handover.KindDrain,
			handover.Message{Kind: handover.KindDrained, Turn: 99}, "busy", "", true},
		{"has very much", handover.KindDrain,
			handover.Message{Kind: handover.KindDrained, Bytes: 1 << 62}, "the host has", "",
			false},
		{"has more than a number holds, with others", handover.KindDrain,
			handover.Message{Kind: handover.KindDrained, Bytes: 1 << 63}, "the host has", "",
			false},
		{"doesn't move", handover.KindMoveOut,
			handover.Message{Kind: handover.KindMovedOut, Error: no}, no, "", false},
		{"doesn't move in", handover.KindMoveIn,
			handover.Message{Kind: handover.KindMovedIn, Error: no}, "", "nothing is lost", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			kinds := map[handover.Kind]handover.Message{}
			for k, a := range good {
				kinds[k] = a
			}
			if test.kind != "" {
				kinds[test.kind] = test.does
			}
			limits := Timeouts{Answer: soon, Exit: soon}
			if test.hangs {
				limits.Answer = 300 * time.Millisecond
			}
			v := greetedVM(t, &stubs{script: func(s *stub) { answer(s, kinds) }}, limits,
				"stop-grace=100ms")
			v.dev.config.HostMemory = func() (uint64, error) { return 1 << 40, nil }
			v.open(0)
			v.open(1)
			if test.suspend != "" {
				v.refused(admin.Request{Suspend: true}, test.suspend, suspend.Running)
				return
			}
			v.mustSuspend()
			if test.resume != "" {
				v.refused(admin.Request{Resume: true}, test.resume, suspend.Suspended)
				return
			}
			v.mustResume()
		})
	}
}
