// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/device/savedstate"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser"
)

var _ interface {
	vhostuser.DirtyLogger
	vhostuser.StateSaver
} = (*Device)(nil)

// TestIdleVMMoves: the driver goes on with another device, and hears of its settings.
func TestIdleVMMoves(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	v.closeChannel(0)
	v.reap(1, 3)
	v.front.Stop(v.queues...)
	var b bytes.Buffer
	if err := v.dev.SaveState(&b); err != nil {
		t.Fatal(err)
	}
	known := v.dev.settings.Told().Sequence
	settings := settingsOf(t, "spin-guest=77us")
	other := New(Config{GPU: "soft", Settings: settings, Generation: 8, Log: quiet()})
	if err := other.LoadState(bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	if other.control.Generation() != 7 || !other.strangers.Greeted() {
		t.Errorf("generation %d, greeted %v", other.control.Generation(), other.strangers.Greeted())
	}
	if s := other.settings.Told(); s.Sequence == known || s.SpinGuestUs != 77 {
		t.Errorf("settings %+v", s)
	}
	v.front.Start(v.queues...) // here again
	v.must(wire.ControlRequest{Type: wire.ControlPing})
	if err := v.dev.LoadState(bytes.NewReader(b.Bytes())); !errors.Is(err, savedstate.ErrState) {
		t.Errorf("load into a device that serves a VM: %v", err)
	}
}

// TestEarlierStateIsLoaded: the VM goes back to a time at which its program hadn't begun.
func TestEarlierStateIsLoaded(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.front.Stop(v.queues...)
	var b bytes.Buffer
	if err := v.dev.SaveState(&b); err != nil {
		t.Fatal(err)
	}
	v.front.Start(v.queues...)
	v.program(0)
	v.front.Stop(v.queues...)
	bad := append(slices.Clone(b.Bytes()), 0)
	if err := v.dev.LoadState(bytes.NewReader(bad)); !errors.Is(err, savedstate.ErrState) {
		t.Errorf("a byte too many: %v", err)
	}
	if v.workers() != 1 {
		t.Error("a state that was refused has ended the program")
	}
	if err := v.dev.LoadState(&b); err != nil {
		t.Fatal(err)
	}
	if v.workers() != 0 {
		t.Error("the program is left")
	}
	v.front.Start(v.queues...)
	v.must(wire.ControlRequest{Type: wire.ControlPing})
	v.program(1)
}

// TestEmptyProgramStays: a VM can't be moved while it has a program that hasn't sent HELLO yet.
func TestEmptyProgramStays(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.open(0)
	v.furnish(0)
	v.front.Stop(v.queues...)
	var b bytes.Buffer
	err := v.dev.SaveState(&b)
	if !errors.Is(err, savedstate.ErrBusy) || !strings.Contains(err.Error(), "(pid 9)") {
		t.Errorf("saved %d bytes, %v", b.Len(), err)
	}
	v.front.Start(v.queues...)
	v.greet(0)
}

// TestMovableIsTold before anybody tries.
func TestMovableIsTold(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	if m := v.dev.figures.Owner().Movable; !m.Now || m.Why != "" {
		t.Errorf("with a program: %+v", m)
	}
	v.closeChannel(0)
	v.reap(1, 3)
	if m := v.dev.figures.Owner().Movable; !m.Now {
		t.Errorf("after it: %+v", m)
	}
}

// TestWhatIsFixedIsTold of each program, and until it is gone.
func TestWhatIsFixedIsTold(t *testing.T) {
	s := newSuspended(t)
	linkers := func() uint64 {
		return s.dev.figures.Owner().Programs[0].Fixed["linkers"]
	}
	made := s.do(gpubackend.OpLinkCreate, noBuffer, 0, 0, 0)
	mustCome(t, "a linker is told of", func() bool { return linkers() == 1 })
	s.mustSuspend()
	if n := linkers(); n != 1 {
		t.Errorf("%d linkers while the VM is suspended", n)
	}
	s.mustResume()
	s.do(gpubackend.OpLinkDestroy, made)
	mustCome(t, "there is no linker", func() bool { return linkers() == 0 })
}

func TestStatesAreChecked(t *testing.T) {
	t.Parallel()
	from := New(Config{GPU: "soft", Settings: settingsOf(t), Generation: 7, Log: quiet()})
	from.strangers.Expect(true)
	good := from.saved.State()
	for _, tt := range []struct {
		name   string
		change func(s *savedstate.State)
		says   string // "" for a state that is taken
	}{
		{"good", func(*savedstate.State) {}, ""},
		{"magic", func(s *savedstate.State) { s.Magic[0]++ }, "not one of Paracuda's"},
		{"format", func(s *savedstate.State) { s.Format++ }, "format"},
		{"version", func(s *savedstate.State) { s.Version++ }, "protocol version"},
		{"channels", func(s *savedstate.State) { s.Channels++ }, "channels"},
		{"arena", func(s *savedstate.State) { s.ArenaBytes *= 2 }, "arena"},
		{"no driver", func(s *savedstate.State) { s.Greeted, s.Channels, s.Version = 0, 1, 1 }, ""},
	} {
		s := *good
		tt.change(&s)
		d := New(Config{GPU: "soft", Settings: settingsOf(t), Log: quiet()})
		err := d.LoadState(bytes.NewReader(s.Encode()))
		as := err != nil && strings.Contains(err.Error(), tt.says)
		if (err == nil) != (tt.says == "") || err != nil && !as {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
		if err != nil && d.control.Generation() != 0 {
			t.Errorf("%s: it was taken all the same", tt.name)
		}
	}
}
