// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// twoGPUs is a mover on the fake driver with two GPUs, of which some are lost later.
type twoGPUs struct {
	t       *testing.T
	h       *host
	library string
	mem     []byte
	region  guestmem.Region
}

const lentBytes = 2 << 20

// newTwoGPUs runs a mover with a library, which is as it was when the mover has ended.
func newTwoGPUs(t *testing.T, library string) *twoGPUs {
	t.Helper()
	t.Setenv("FAKE_DEVICES", "2")
	x := &twoGPUs{t: t, library: library}
	t.Cleanup(func() {
		x.lose(0, gpubackend.Success)
		x.lose(1, gpubackend.Success)
		drivertest.TellOf(library, "fake_sticky", 0)
		drivertest.TellOf(library, "fake_unpin")
	})
	x.mem, x.region = oneRegion(t, lentBytes)
	fill(x.mem, 7)
	x.h = startMover(t, "cuda", Config{Library: x.library, Registered: 64 << 10}, x.region)
	return x
}

// lose makes a GPU answer with an error; Success: it is well again.
func (x *twoGPUs) lose(gpu int, r gpubackend.Result) {
	drivertest.TellOf(x.library, "fake_lost", uint64(gpu), uint64(r))
}

// registrations is how often memory was to be registered.
func (x *twoGPUs) registrations() uint64 {
	return drivertest.CountOf(x.library, "cuMemHostRegister_v2")
}

// gpuUser is a worker that has lent memory of a GPU.
type gpuUser struct {
	x   *twoGPUs
	c   *Client
	id  uint32
	mem []byte
}

func (x *twoGPUs) lend(gpu int) (*gpuUser, error) {
	x.t.Helper()
	u := &gpuUser{x: x, c: x.h.client()}
	var fd int
	u.mem, fd = ofGPU(x.t, fmt.Sprint("gpu", gpu), lentBytes)
	var err error
	u.id, err = u.c.Attach(fd, 0, lentBytes)
	return u, err
}

func (x *twoGPUs) user(gpu int) *gpuUser {
	x.t.Helper()
	u, err := x.lend(gpu)
	if err != nil {
		x.t.Fatalf("GPU %d: %v", gpu, err)
	}
	return u
}

// refused wants a GPU's memory to be refused with a GPU's error.
func (x *twoGPUs) refused(gpu int, want gpubackend.Result) {
	x.t.Helper()
	if _, err := x.lend(gpu); !errors.Is(err, moves.ErrRefused) ||
		gpubackend.ResultIn(err) != want {
		x.t.Errorf("GPU %d: %v, want it refused with %v", gpu, err, want)
	}
}

const userBytes = 8192

func (u *gpuUser) start() {
	u.x.t.Helper()
	if err := u.c.Start(&moves.Move{Staging: u.id, ToDevice: true,
		Runs: []wire.Run{{Address: guestBase, Bytes: userBytes}}}); err != nil {
		u.x.t.Fatal(err)
	}
}

// ends waits for a copy, which succeeds, or fails with a GPU's error.
func (u *gpuUser) ends(want gpubackend.Result) {
	u.x.t.Helper()
	err := finish(u.x.t, u.c, 1)[0].Err
	if got := gpubackend.ResultIn(err); got != want || (err == nil) != (got == 0) {
		u.x.t.Errorf("a copy: %v, want %v", err, want)
	}
	if err == nil && !bytes.Equal(u.mem[:userBytes], u.x.mem[:userBytes]) {
		u.x.t.Error("bytes differ")
	}
}

// copies makes a copy.
func (u *gpuUser) copies(want gpubackend.Result) {
	u.x.t.Helper()
	clear(u.mem)
	u.start()
	u.ends(want)
}

// begun waits until the mover has taken all that was asked.
func (u *gpuUser) begun() {
	u.x.t.Helper()
	for end := time.Now().Add(patience); u.c.ring.load(offRequestHead) != u.c.tail; {
		if time.Now().After(end) {
			u.x.t.Fatal("the mover doesn't take a request")
		}
	}
}

// fails waits for the mover's end.
func (x *twoGPUs) fails(want gpubackend.Result) {
	x.t.Helper()
	select {
	case err := <-x.h.ended:
		if gpubackend.ResultIn(err) != want {
			x.t.Errorf("the mover ends: %v, want %v", err, want)
		}
	case <-time.After(patience):
		x.t.Error("the mover goes on")
	}
	x.h.control.Close()
	x.h.ended = nil
}

// TestLostBeforeItIsOpened: such a GPU's memory is refused, and the other one copies, whichever
// came first.
func TestLostBeforeItIsOpened(t *testing.T) {
	library := drivertest.Build(t)
	for lost := range 2 {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprint(lost, first), func(t *testing.T) {
				x := newTwoGPUs(t, library)
				x.lose(lost, gpubackend.Unknown)
				if first {
					x.refused(lost, gpubackend.Unknown)
				}
				u := x.user(1 - lost)
				u.copies(gpubackend.Success)
				x.refused(lost, gpubackend.Unknown)
				u.copies(gpubackend.Success)
			})
		}
	}
}

// TestLostWhileItCopies: the copies of that GPU fail with its error, those under way and later
// ones, and the other GPU's go on. When it fails as well the mover ends.
func TestLostWhileItCopies(t *testing.T) {
	library := drivertest.Build(t)
	for lost := range 2 {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			x := newTwoGPUs(t, library)
			loses, goesOn := x.user(lost), x.user(1-lost)
			loses.copies(gpubackend.Success)
			goesOn.copies(gpubackend.Success)
			drivertest.TellOf(x.library, "fake_not_ready", 1<<30)
			clear(goesOn.mem)
			for _, u := range []*gpuUser{loses, loses, goesOn} {
				u.start()
				u.begun()
			}
			x.lose(lost, gpubackend.Unknown)
			loses.ends(gpubackend.Unknown)
			drivertest.TellOf(x.library, "fake_not_ready", 0)
			goesOn.ends(gpubackend.Success)
			for range 3 {
				goesOn.copies(gpubackend.Success)
				loses.copies(gpubackend.Unknown)
				x.refused(lost, gpubackend.Unknown)
			}
			x.user(1 - lost).copies(gpubackend.Success)
			x.lose(1-lost, gpubackend.Unknown)
			goesOn.start()
			x.fails(gpubackend.Unknown)
		})
	}
}

// TestTheOnlyOneThatIsOpenIsLost: the mover ends, as another one may find the GPU well.
func TestTheOnlyOneThatIsOpenIsLost(t *testing.T) {
	x := newTwoGPUs(t, drivertest.Build(t))
	u := x.user(1)
	x.lose(1, gpubackend.Unknown)
	u.start()
	x.fails(gpubackend.Unknown)
}

// TestAnErrorOfTheProcess ends the contexts of all GPUs: the mover doesn't wait until each copies.
func TestAnErrorOfTheProcess(t *testing.T) {
	x := newTwoGPUs(t, drivertest.Build(t))
	x.user(0)
	u := x.user(1)
	drivertest.TellOf(x.library, "fake_sticky", uint64(gpubackend.ECCUncorrectable))
	u.start()
	x.fails(gpubackend.ECCUncorrectable)
}

// TestALostGPURegistersNothing: that it can't says nothing about guest memory, which the other GPU
// registers, once.
func TestALostGPURegistersNothing(t *testing.T) {
	x := newTwoGPUs(t, drivertest.Build(t))
	lost, other := x.user(1), x.user(0)
	x.lose(1, gpubackend.Unknown)
	lost.copies(gpubackend.Unknown)
	before := x.registrations()
	for range 3 {
		other.copies(gpubackend.Success)
	}
	if n := x.registrations() - before; n != 1 {
		t.Errorf("%d registrations by the other GPU, want 1", n)
	}
}

// TestMemoryIsUnregisteredWhereItWasRegistered, whichever GPU copied last. If that can't be done
// any more, the mover says so and ends.
func TestMemoryIsUnregisteredWhereItWasRegistered(t *testing.T) {
	library := drivertest.Build(t)
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			x := newTwoGPUs(t, library)
			before := x.registrations()
			x.user(1).copies(gpubackend.Success)
			other := x.user(0)
			other.copies(gpubackend.Success)
			if n := x.registrations() - before; n != 1 {
				t.Errorf("%d registrations, want 1", n)
			}
			if lost {
				x.lose(1, gpubackend.Unknown)
			}
			x.h.sendMemory(handover.KindMemory, nil)
			m, _, err := x.h.control.Receive()
			if err != nil || m.Kind != handover.KindDone || (m.Error != "") != lost {
				t.Errorf("%+v, %v", m, err)
			}
			if lost {
				x.fails(gpubackend.Unknown)
			}
		})
	}
}

// TestNoRoomForAContext: another GPU that is open copies, if there is one. Otherwise the memory is
// refused, until there is room.
func TestNoRoomForAContext(t *testing.T) {
	const noRoom = uint64(gpubackend.OutOfMemory)
	for name, test := range map[string]struct{ short, well []uint64 }{
		"fake_lost":   {[]uint64{1, noRoom}, []uint64{1, 0}}, // no room for a context
		"fake_sticky": {[]uint64{noRoom}, []uint64{0}},       // or for what is in it
	} {
		t.Run(name, func(t *testing.T) {
			e, library := newTestEngine(t, 2)
			_, fd := ofGPU(t, "gpu1", lentBytes)
			drivertest.TellOf(library, name, test.short...)
			for range 2 {
				_, err := e.attach(fd, 0, lentBytes)
				if gpubackend.ResultIn(err) != gpubackend.OutOfMemory {
					t.Fatalf("no room: %v", err)
				}
			}
			if n := drivertest.CountOf(library, "cuDevicePrimaryCtxRetain"); n != 1 {
				t.Errorf("%d tries at once, want 1", n)
			}
			if _, b := contexts(e); b != 0 {
				t.Errorf("contexts that there aren't: %d", b)
			}
			if name == "fake_lost" {
				_, other := ofGPU(t, "gpu0", lentBytes)
				if _, err := e.attach(other, 0, lentBytes); err != nil {
					t.Fatal(err)
				}
				s, err := e.attach(fd, 0, lentBytes)
				if err != nil || s.(cudaStaging).on != e.gpus[0] {
					t.Errorf("with another GPU: %+v, %v", s, err)
				}
			}
			drivertest.TellOf(library, name, test.well...)
			e.closed[1].until = time.Now()
			s, err := e.attach(fd, 0, lentBytes)
			if err != nil || s.(cudaStaging).on != e.gpus[1] {
				t.Errorf("with room: %+v, %v", s, err)
			}
		})
	}
}
