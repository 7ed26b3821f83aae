// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// saveState is the state of the VM, whose queues are stopped.
func (v *vm) saveState() []byte {
	v.t.Helper()
	var b bytes.Buffer
	if err := v.dev.SaveState(&b); err != nil {
		v.t.Fatal(err)
	}
	return b.Bytes()
}

// moveTo has the VM go on with another device, as QEMU does: that one gets the state before it gets
// the guest's memory.
func (s *suspended) moveTo(c Config, state []byte, settings ...string) {
	s.t.Helper()
	s.close()
	s.page = newLedger(s.t)
	c.GPU, c.Settings, c.Generation, c.Log = "soft", settingsOf(s.t, settings...), 8, quiet()
	c.Timeouts = patient
	if c.Ledger = s.page; c.Spawn == nil {
		c.Spawn = &processes{}
	}
	s.dev, s.ended = New(c), make(chan error, 1)
	near, far := vhostusertest.Pair(s.t)
	session, err := vhostuser.New(far, s.dev, vhostuser.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	ended := s.ended
	go func() { ended <- session.Run(context.Background()) }()
	s.front = vhostusertest.NewFrontend(s.t, near)
	s.front.Realize(s.dev.NumQueues())
	s.front.MustSend(vhostuser.ResetDevice, nil)
	if err := s.dev.LoadState(bytes.NewReader(state)); err != nil {
		s.t.Fatal(err)
	}
	s.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(s.features))
	s.front.AddMemory(s.guest)
	s.front.Start(s.queues...)
}

// TestProgramsMove: a program goes on where it stopped, in one device after the other, and here if
// it isn't moved after all.
func TestProgramsMove(t *testing.T) {
	s := newSuspended(t)
	for _, size := range []uint64{4096, 100000, 5 << 20, 12 << 20} {
		s.allocate(size)
	}
	c := s.load()
	stream := s.do(gpubackend.OpStreamCreateWithPriority, 1, 0)
	page := s.pin()
	counted := s.count(c, stream)
	for range 3 {
		s.front.Stop(s.queues...)
		s.saveState()
		s.front.Start(s.queues...) // here again
		s.mustHold()
		s.mustReach(page)
		counted++
		if got := s.count(c, stream); got != counted {
			t.Fatalf("the kernel has counted to %d here, not %d", got, counted)
		}
		s.front.Stop(s.queues...)
		state := s.saveState()
		if other := s.saveState(); len(other) != len(state) {
			t.Fatalf("%d bytes, and then %d", len(state), len(other))
		}
		s.moveTo(Config{}, state)
		s.mustHold()
		s.mustReach(page)
		counted++
		if got := s.count(c, stream); got != counted {
			t.Fatalf("the kernel has counted to %d there, not %d", got, counted)
		}
		s.allocate(1 << 20)
		s.mustHold()
		if !s.dev.strangers.Greeted() || inLedger(s.page) == 0 {
			t.Fatalf("greeted %t, %d bytes", s.dev.strangers.Greeted(), inLedger(s.page))
		}
	}
	s.mustSuspend()
	s.mustResume()
	s.resumeFrom(s.saveTo())
	s.mustHold()
	s.closeChannel(0)
	s.program(0)
}

// TestDescriptorsMove: what a descriptor stands for can be imported there, and here if the VM isn't
// moved after all.
func TestDescriptorsMove(t *testing.T) {
	s := newSuspended(t)
	m := s.do(gpubackend.OpMemCreate, 4<<20, 0, 0)
	n := uint32(s.do(gpubackend.OpMemExportToShareableHandle, m))
	handle := s.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Number: n})
	for range 3 {
		s.front.Stop(s.queues...)
		s.saveState()
		s.front.Start(s.queues...) // here again
		s.mustImport(handle)
		s.front.Stop(s.queues...)
		s.moveTo(Config{}, s.saveState())
		s.mustImport(handle)
	}
	s.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
}

// mustImport has the program import a handle's memory.
func (s *suspended) mustImport(handle uint32) {
	s.t.Helper()
	number := s.status(wire.StatusOk,
		wire.ControlRequest{Type: wire.ControlImport, Number: handle})
	s.do(gpubackend.OpMemRelease, s.do(gpubackend.OpMemImportFromShareableHandle, uint64(number)))
}

// TestMovedOnWithoutRunning: a VM that was moved may be moved again before it has run.
func TestMovedOnWithoutRunning(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	page := s.pin()
	s.front.Stop(s.queues...)
	first := s.saveState()
	s.close()
	between := New(Config{GPU: "soft", Settings: settingsOf(t), Log: quiet(), Spawn: &processes{}})
	if err := between.LoadState(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	var second bytes.Buffer
	if err := between.SaveState(&second); err != nil {
		t.Fatal(err)
	}
	between.Abandon()
	between.Reset()
	s.moveTo(Config{}, second.Bytes())
	s.mustHold()
	s.mustReach(page)
}

// TestCallsEndBeforeAMove: a call that waits for the GPU when the VM pauses has its answer before
// the VM is saved.
func TestCallsEndBeforeAMove(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 8
	}
	s := newSuspended(t)
	s.allocate(4096) // in one segment with the module's variable
	c := s.load()
	for range rounds {
		s.do(gpubackend.OpLaunchKernel, c.function, 0, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
		s.seq++
		s.send(0, gpubackend.OpCtxSynchronize, s.seq)
		s.front.Stop(s.queues...)
		s.moveTo(Config{}, s.saveState())
		var slot wire.Slot
		mustCome(t, "the call has its answer", func() bool {
			s.kick(1)
			slot.Decode(s.guest.Read(s.arena+wire.Slots, wire.SlotBytes))
			return slot.Done == s.seq
		})
		if slot.Result != 0 {
			t.Fatalf("the call ended with %d", slot.Result)
		}
		s.mustHold()
	}
}

// TestWhatStays: a VM that can't be saved says why, nothing is written, and it goes on.
func TestWhatStays(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	mustStay := func(text string) {
		t.Helper()
		s.front.Stop(s.queues...)
		var b bytes.Buffer
		err := s.dev.SaveState(&b)
		if !errors.Is(err, savedstate.ErrBusy) || !strings.Contains(err.Error(), text) ||
			b.Len() != 0 {
			t.Fatalf("%d bytes, %v, want %q", b.Len(), err, text)
		}
		s.front.Start(s.queues...)
	}
	linker := s.do(gpubackend.OpLinkCreate, noBuffer, 0, 0, 0)
	mustCome(t, "a linker is told of",
		func() bool { return s.dev.figures.Owner().Programs[0].Fixed["linkers"] == 1 })
	if m := s.dev.figures.Owner().Movable; m.Now || !strings.Contains(m.Why, "linkers") {
		t.Errorf("movable: %+v", m)
	}
	mustStay("(pid 9) has state that can't be made again: linkers")
	s.mustHold()
	s.do(gpubackend.OpLinkDestroy, linker)
	mustCome(t, "there is no linker", func() bool { return s.dev.figures.Owner().Movable.Now })
	s.mustSuspend()
	mustStay("it is suspended")
	s.mustResume()
	s.front.Stop(s.queues...)
	s.moveTo(Config{}, s.saveState())
	s.mustHold()
}

// TestStrangersAreRefused: a state that doesn't suit, or is damaged, makes no worker, and what the
// device had before stays if that is seen at its beginning.
func TestStrangersAreRefused(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	s.front.Stop(s.queues...)
	state := s.saveState()
	fresh := func(c Config) *Device {
		if c.GPU == "" {
			c.GPU = "soft"
		}
		c.Settings, c.Log, c.Spawn = settingsOf(t), quiet(), &processes{}
		return New(c)
	}
	for text, c := range map[string]Config{
		`is of another GPU, "soft", this one is "cuda"`: {GPU: "cuda"},
		`another version of Paracuda, "", this one`:     {Build: "later"},
	} {
		d := fresh(c)
		if err := d.LoadState(bytes.NewReader(state)); err == nil ||
			!strings.Contains(err.Error(), text) || len(d.channels.Serving()) > 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
	damaged := func(at int) []byte {
		b := slices.Clone(state)
		b[at] ^= 4
		return b
	}
	for name, b := range map[string][]byte{
		"damaged head":   damaged(60),
		"damaged middle": damaged(len(state) / 2),
		"damaged end":    damaged(len(state) - 1),
		"half":           state[:len(state)/2],
		"all but a byte": state[:len(state)-1],
		"a byte more":    append(slices.Clone(state), 0),
	} {
		d := fresh(Config{})
		if err := d.LoadState(bytes.NewReader(b)); err == nil || len(d.channels.Serving()) > 0 {
			t.Errorf("%s: %v, %d workers", name, err, len(d.channels.Serving()))
		}
	}
	if err := s.dev.LoadState(bytes.NewReader(damaged(60))); err == nil || s.workers() != 1 {
		t.Errorf("%v, %d workers are left of the VM's", err, s.workers())
	}
	s.front.Start(s.queues...)
	s.mustHold()
}

// TestAnEarlierTime: QEMU's loadvm takes a program back to where it was.
func TestAnEarlierTime(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	s.front.Stop(s.queues...)
	restore := s.snapshot()
	for range 3 {
		s.front.Start(s.queues...)
		s.mustHold()
		s.front.Stop(s.queues...)
		restore()
	}
	s.front.Start(s.queues...)
	s.mustHold()
	s.refused(admin.Request{Resume: true}, "the VM is running", suspend.Running)
}

// snapshot saves the VM, whose queues are stopped, with its memory. What it returns puts it back,
// as QEMU's loadvm does.
func (s *suspended) snapshot() (restore func()) {
	s.t.Helper()
	state, memory, seq := s.saveState(), s.guest.Read(0, guestBytes), s.seq
	var was []vhostusertest.Queue
	for _, q := range s.queues {
		was = append(was, vhostusertest.Queue{Driver: q.Driver.Clone(), Base: q.Base})
	}
	return func() {
		s.t.Helper()
		s.guest.Write(0, memory)
		for i, q := range s.queues {
			q.Driver, q.Base = was[i].Driver.Clone(), was[i].Base
		}
		s.front.MustSend(vhostuser.ResetDevice, nil)
		if err := s.dev.LoadState(bytes.NewReader(state)); err != nil {
			s.t.Fatal(err)
		}
		s.front.MustSend(vhostuser.SetFeatures, vhostusertest.Word(s.features))
		s.seq = seq
		s.appended = uint32(s.guestWord(s.arena + wire.ArenaHeaderAppendedOffset))
	}
}

// guestWord is a word of the guest's memory.
func (s *suspended) guestWord(at uint64) uint32 {
	b := s.guest.Read(at, 4)
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// TestPausedInAHostFunction: a VM that pauses while its program runs a host function isn't saved,
// and loses nothing.
func TestPausedInAHostFunction(t *testing.T) {
	s := newSuspended(t)
	c := s.load()
	s.count(c, 0)
	launch := func() {
		s.do(gpubackend.OpLaunchKernel, c.function, 0, 1|1<<32, 1|1<<32, 1|1<<32, 0, 0)
	}
	s.do(gpubackend.OpHostFunc, 0, 7)
	launch()
	var due wire.Slot
	mustCome(t, "the function is due", func() bool {
		s.kick(1)
		due.Decode(s.guest.Read(s.arena+wire.Slots+wire.HostSlot*wire.SlotBytes, wire.SlotBytes))
		return due.Done == 1
	})
	s.seq++
	s.send(0, gpubackend.OpStreamSynchronize, s.seq, 0) // which waits for it
	for range 2 {
		s.front.Stop(s.queues...)
		err := s.dev.SaveState(&bytes.Buffer{})
		if !errors.Is(err, savedstate.ErrBusy) ||
			!strings.Contains(err.Error(), "a host function is to run") {
			t.Fatalf("saved: %v", err)
		}
		s.front.Start(s.queues...)
	}
	s.guest.Write(s.arena+wire.ArenaHeaderHostDoneOffset, []byte{1, 0, 0, 0})
	mustCome(t, "the call has its answer", func() bool {
		s.kick(1)
		var slot wire.Slot
		slot.Decode(s.guest.Read(s.arena+wire.Slots, wire.SlotBytes))
		return slot.Done == s.seq
	})
	launch()
	if got := s.count(c, 0); got != 4 {
		t.Errorf("%d kernels have run, of 4", got)
	}
	s.front.Stop(s.queues...)
	s.moveTo(Config{}, s.saveState())
	if got := s.count(c, 0); got != 5 {
		t.Errorf("%d kernels have run, of 5", got)
	}
}
