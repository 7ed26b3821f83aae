// SPDX-License-Identifier: Apache-2.0

package sharing

import (
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
)

// fakeDriver shares any address, as the beginning of an allocation if it is a multiple of 4096.
type fakeDriver struct {
	asked    int
	mapped   []gpubackend.Shared
	unmapped []uint64
	taken    []uint64
	opened   []gpubackend.SharedEvent
}

func (d *fakeDriver) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	d.asked++
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC)
	if err != nil {
		return s, -1, gpubackend.Unknown
	}
	return gpubackend.Shared{Start: 512, Bytes: 8192, Offset: 7, Allocated: addr%4096 == 0}, fd,
		gpubackend.Success
}
func (d *fakeDriver) MapShared(s gpubackend.Shared, _ int) (uint64, gpubackend.Result) {
	d.mapped = append(d.mapped, s)
	return 1 << 40, gpubackend.Success
}
func (d *fakeDriver) TakeShared(
	addr uint64, s gpubackend.Shared, _ int,
) gpubackend.Result {
	if addr%4096 != 0 {
		return gpubackend.InvalidValue
	}
	d.taken = append(d.taken, addr)
	return gpubackend.Success
}
func (d *fakeDriver) UnmapShared(addr uint64) gpubackend.Result {
	d.unmapped = append(d.unmapped, addr)
	return gpubackend.Success
}
func (d *fakeDriver) ShareEvent(
	e gpubackend.Event,
) (s gpubackend.SharedEvent, fd int, result gpubackend.Result) {
	s[0] = byte(e)
	return s, -1, gpubackend.Success
}
func (d *fakeDriver) OpenEvent(
	s gpubackend.SharedEvent, _ int,
) (gpubackend.Event, gpubackend.Result) {
	d.opened = append(d.opened, s)
	return 7, gpubackend.Success
}

// fakeContexts is the current context. Each is its own home.
type fakeContexts struct{ current uint64 }

func (*fakeContexts) Home(handle uint64) uint64 { return handle }
func (x *fakeContexts) HomeOfCurrent() uint64   { return x.current }
func (x *fakeContexts) Set(handle uint64, _ bool) gpubackend.Result {
	x.current = handle
	return gpubackend.Success
}

// rig is a Sharing with a fake around it.
type rig struct {
	*Sharing
	driver  fakeDriver
	current fakeContexts
	objects object.Table
	watched int
	call    call.Call
}

// hub is the device process of all rigs.
var hub = offerstest.New()

func newRig() *rig {
	r := &rig{current: fakeContexts{5}}
	own, _ := hub.Worker()
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Sharing = New(Config{
		Driver: &r.driver, Objects: &r.objects, Contexts: &r.current, Log: logrus.NewEntry(log),
		Offers: own, Watch: func() { r.watched++ },
		WhenIdle: func(_ *call.Call, then func() (uint64, gpubackend.Result)) gpubackend.Result {
			_, result := then()
			return result
		},
	})
	return r
}

func (r *rig) do(t *testing.T, want gpubackend.Result, op gpubackend.Op, words ...uint64) []uint64 {
	t.Helper()
	command := &arena.Command{N: copy(new(arena.Command).Words[:], words)}
	copy(command.Words[:], words)
	r.call = call.Call{}
	r.call.Start(command)
	r.call.Context = r.current.current
	if got := r.Handlers()[op].Run(&r.call); got != want {
		t.Fatalf("%s: %v, want %v", op.Name(), got, want)
	}
	return append([]uint64(nil), r.call.Answers()...)
}

// TestMemoryGoesFromOneToAnother, until its offer ends in any way.
func TestMemoryGoesFromOneToAnother(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"freed":        func(r *rig) { r.Withdraw(4096) },
		"device":       func(r *rig) { r.WithdrawIn(4000, 200) },
		"context ends": func(r *rig) { r.Forget(5) },
	} {
		t.Run(name, func(t *testing.T) {
			one, other := newRig(), newRig()
			name := one.do(t, 0, gpubackend.OpIpcGetMemHandle, 4096)
			if again := one.do(t, 0, gpubackend.OpIpcGetMemHandle, 4096); again[0] != name[0] ||
				one.driver.asked != 1 {
				t.Error("an allocation is offered twice")
			}
			if name[2] != 512 || name[3] != 8192 || name[4] != 7 || one.watched != 1 {
				t.Errorf("%d, watched %d times", name, one.watched)
			}
			one.do(t, gpubackend.InvalidValue, gpubackend.OpIpcGetMemHandle, 4097)
			one.do(t, gpubackend.InvalidContext, gpubackend.OpIpcOpenMemHandle, name...)
			at := other.do(t, 0, gpubackend.OpIpcOpenMemHandle, name...)
			if len(at) != 2 || at[0] != 1<<40+7 || at[1] != 1<<40 {
				t.Errorf("mapped at %x", at)
			}
			for i := 1; i < 4; i++ {
				wrong := append([]uint64(nil), name...)
				wrong[i] += 8192
				other.do(t, gpubackend.InvalidValue, gpubackend.OpIpcOpenMemHandle, wrong...)
			}
			end(one)
			other.do(t, gpubackend.InvalidValue, gpubackend.OpIpcOpenMemHandle, name...)
			other.do(t, 0, gpubackend.OpIpcCloseMemHandle, at[1])
			other.do(t, gpubackend.InvalidValue, gpubackend.OpIpcCloseMemHandle, at[1])
			if len(other.driver.unmapped) != 1 || len(other.driver.mapped) != 1 ||
				len(one.offered) != 0 {
				t.Errorf("mapped %d, unmapped %d, %d offered", len(other.driver.mapped),
					len(other.driver.unmapped), len(one.offered))
			}
		})
	}
}

// TestForgottenMemoryIsUnmapped: what a context had from others ends with it, and nothing else.
func TestForgottenMemoryIsUnmapped(t *testing.T) {
	one, other := newRig(), newRig()
	name := one.do(t, 0, gpubackend.OpIpcGetMemHandle, 4096)
	at := other.do(t, 0, gpubackend.OpIpcOpenMemHandle, name...)
	other.Forget(other.current.current + 1)
	if len(other.driver.unmapped) != 0 {
		t.Error("memory of another context is unmapped")
	}
	other.Forget(other.current.current)
	if !slices.Equal(other.driver.unmapped, at[1:]) || other.Has(at[1], 1) {
		t.Errorf("unmapped %x, want %x", other.driver.unmapped, at[1:])
	}
	one.Close()
}

func TestEventsGoFromOneToAnother(t *testing.T) {
	one, other := newRig(), newRig()
	e := one.objects.Add(object.Event, 9, 5)
	name := one.do(t, 0, gpubackend.OpIpcGetEventHandle, e)
	one.do(t, gpubackend.InvalidContext, gpubackend.OpIpcOpenEventHandle, name...)
	one.do(t, gpubackend.InvalidHandle, gpubackend.OpIpcGetEventHandle, e+1)
	h := other.do(t, 0, gpubackend.OpIpcOpenEventHandle, name...)
	if native, ok := other.objects.Lookup(object.Event, h[0]); !ok || native != 7 ||
		other.driver.opened[0][0] != 9 {
		t.Errorf("opened %v", other.driver.opened)
	}
	destroyed := 0
	step := one.Steps()[gpubackend.OpEventDestroy]
	command := &arena.Command{N: 1}
	command.Words[0] = e
	one.call.Start(command)
	step(&one.call, func(*call.Call) gpubackend.Result { destroyed++; return gpubackend.Success })
	other.do(t, gpubackend.InvalidHandle, gpubackend.OpIpcOpenEventHandle, name...)
	if destroyed != 1 {
		t.Error("the event wasn't destroyed")
	}
}

func TestSharedMemoryIsBounded(t *testing.T) {
	r := newRig()
	for i := range uint64(maxMemory) {
		r.offered[i] = &offering{}
	}
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpIpcGetMemHandle, 8192)
}

func TestSharedEventsAreBounded(t *testing.T) {
	r := newRig()
	for i := range uint64(maxEvents) {
		r.events[i] = &offering{}
	}
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpIpcGetEventHandle,
		r.objects.Add(object.Event, 6, 0))
}
