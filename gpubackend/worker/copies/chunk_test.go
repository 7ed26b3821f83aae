// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/memory"
)

// Addresses of the fake device: memory that can be lent, memory that can't, staging memory.
const (
	lent    = 0x100000
	plain   = 0x200000
	through = 0x300000
	room    = 0x10000 // of each
)

// fakeDevice has device and guest memory as bytes, a mover, contexts and fences. step says in which
// order work is done.
type fakeDevice struct {
	gpubackend.Driver
	device map[uint64][]byte // by base
	guest  []byte
	queue  []func()          // work of the stream that isn't done
	moving []moves.Move      // that the mover hasn't ended
	loans  map[uint32]uint64 // base by the mover's number
	passed map[uint64]bool   // fences
	busy   bool              // the context has earlier work
	held   gpubackend.Stream // whose work isn't done for now; 0: none
	stuck  []func()          // that work
	mover  error
}

func (d *fakeDevice) at(addr, n uint64) []byte {
	for base, b := range d.device {
		if addr >= base && addr-base <= room && n <= room-(addr-base) {
			return b[addr-base:][:n]
		}
	}
	panic("no such memory")
}

func (d *fakeDevice) ContextQuery() gpubackend.Result {
	if d.busy || len(d.queue) > 0 {
		return gpubackend.NotReady
	}
	return gpubackend.Success
}
func (d *fakeDevice) Copy(dst, src, n uint64, s gpubackend.Stream) gpubackend.Result {
	d.put(s, func() { copy(d.at(dst, n), d.at(src, n)) })
	return gpubackend.Success
}

// put queues work.
func (d *fakeDevice) put(s gpubackend.Stream, work func()) {
	if d.held != 0 && s == d.held {
		d.stuck = append(d.stuck, work)
		return
	}
	d.queue = append(d.queue, work)
}
func (d *fakeDevice) Staging(uint64) (uint64, int, gpubackend.Result) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return 0, -1, gpubackend.Unknown
	}
	return through, fd, gpubackend.Success
}
func (d *fakeDevice) Unstage(uint64) {}
func (d *fakeDevice) Share(addr uint64) (s gpubackend.Shared, fd int, result gpubackend.Result) {
	if addr-lent >= room {
		return s, -1, gpubackend.InvalidValue
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return s, -1, gpubackend.Unknown
	}
	return gpubackend.Shared{Bytes: room, Offset: addr - lent, Start: lent}, fd, gpubackend.Success
}
func (d *fakeDevice) Watch(func(addr, bytes uint64)) {}

// Set makes a context current.
func (d *fakeDevice) Set(uint64, bool) gpubackend.Result { return gpubackend.Success }

// fakeStreams has all streams.
type fakeStreams struct{}

func (fakeStreams) Find(_ *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result) {
	return gpubackend.Stream(1 + handle), 0
}

func (d *fakeDevice) HomeOfCurrent() uint64 { return 1 }
func (d *fakeDevice) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	e := gpubackend.Event(len(d.passed) + 1)
	d.passed[uint64(e)] = false
	return e, gpubackend.Success
}
func (d *fakeDevice) EventRecordWithFlags(
	e gpubackend.Event, s gpubackend.Stream, _ uint64,
) gpubackend.Result {
	d.passed[uint64(e)] = false
	d.put(s, func() { d.passed[uint64(e)] = true })
	return gpubackend.Success
}
func (d *fakeDevice) EventQuery(e gpubackend.Event) gpubackend.Result {
	if d.passed[uint64(e)] {
		return gpubackend.Success
	}
	return gpubackend.NotReady
}

// fakeMover copies when a test says so.
type fakeMover struct {
	closed   int
	detached int
	d        *fakeDevice
	ended    []moves.Completion
}

func (m *fakeMover) Attach(_ int, start, _ uint64) (uint32, error) {
	n := uint32(len(m.d.loans) + 1)
	m.d.loans[n] = map[bool]uint64{true: through, false: lent}[start == 0]
	return n, m.d.mover
}
func (m *fakeMover) Detach(uint32) error {
	m.detached++
	return nil
}
func (m *fakeMover) Start(x *moves.Move) error {
	c := *x
	c.Runs = append([]wire.Run(nil), x.Runs...)
	m.d.moving = append(m.d.moving, c)
	return nil
}
func (m *fakeMover) Poll(dst []moves.Completion) ([]moves.Completion, error) {
	dst = append(dst, m.ended...)
	m.ended = nil
	return dst, m.d.mover
}
func (m *fakeMover) FD() int      { return -1 }
func (m *fakeMover) Close() error { m.closed++; return nil }

// end ends one of the mover's copies.
func (m *fakeMover) end(i int, err error) {
	x := m.d.moving[i]
	m.d.moving = append(m.d.moving[:i], m.d.moving[i+1:]...)
	at := m.d.loans[x.Staging] + x.Offset
	for _, r := range x.Runs {
		if err != nil {
			break
		}
		guest, device := m.d.guest[r.Address:][:r.Bytes], m.d.at(at, r.Bytes)
		if x.ToDevice {
			copy(device, guest)
		} else {
			copy(guest, device)
		}
		at += r.Bytes
	}
	m.ended = append(m.ended, moves.Completion{ID: x.ID, Err: err})
}

// fakeMaps has one map, of all guest memory.
type fakeMaps struct {
	m    maps.Map
	uses int
}

func (f *fakeMaps) Named(call.Reference, bool) (*maps.Map, gpubackend.Result) { return &f.m, 0 }
func (f *fakeMaps) Use(*maps.Map)                                             { f.uses++ }
func (f *fakeMaps) Release(*maps.Map)                                         { f.uses-- }
func (f *fakeMaps) GiveUnused(*call.Call, gpubackend.Result)                  {}

// rig is Copies with a fake device, and the work that calls wait for.
type rig struct {
	*Copies
	d      *fakeDevice
	mover  *fakeMover
	needs  int // how often the mover was asked for
	maps   fakeMaps
	works  []call.Work
	failed []gpubackend.Result
	call   call.Call
}

// newRig makes a rig with a mover.
func newRig() *rig {
	r := newLoneRig()
	r.Connect(r.mover)
	return r
}

// newLoneRig makes a rig that has to ask for its mover.
func newLoneRig() *rig {
	d := &fakeDevice{
		device: map[uint64][]byte{lent: make([]byte, room), plain: make([]byte, room),
			through: make([]byte, room)},
		guest: make([]byte, room), loans: map[uint32]uint64{}, passed: map[uint64]bool{},
	}
	r := &rig{d: d, mover: &fakeMover{d: d}}
	r.maps.m = maps.Map{Bytes: room, Flags: wire.MapFlagWrite,
		Runs: []wire.Run{{Address: 0, Bytes: room}}}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Copies = New(Config{
		Driver: d, NeedMover: func() { r.needs++ }, Contexts: d, Fences: fences.New(d, d),
		Streams: fakeStreams{}, Maps: &r.maps,
		Await: func(_ *call.Call, work call.Work) gpubackend.Result {
			r.works = append(r.works, work)
			return call.Pending
		},
		AtAddress:    func(*maps.Map, call.Reference) bool { return false },
		MappedAt:     func(uint64) (memory.Mapping, bool) { return memory.Mapping{}, false },
		MakeRoom:     func() bool { return false },
		Gone:         func(uint64, uint64) {},
		StagingBytes: func() uint64 { return 8 * 512 },
		Failed:       func(result gpubackend.Result) { r.failed = append(r.failed, result) },
		Count:        func(handover.Counter, uint64) {},
		Log:          logrus.NewEntry(log),
	})
	return r
}

func (r *rig) do(op gpubackend.Op, reply bool, words ...uint64) gpubackend.Result {
	command := &arena.Command{N: len(words)}
	if reply {
		command.Flags = wire.CommandFlagReply
	}
	copy(command.Words[:], words)
	r.call.Start(command)
	return r.Handlers()[op].Run(&r.call)
}

// poll is one round of the worker's loop. It returns the results of the work that is over.
func (r *rig) poll() (over []gpubackend.Result) {
	r.Poll()
	waiting := r.works[:0]
	for _, work := range r.works {
		result := work.Advance()
		if result == gpubackend.NotReady {
			waiting = append(waiting, work)
		} else if work.Over(result) {
			over = append(over, result)
		}
	}
	r.works = waiting
	return over
}

// TestChunksAgainstCopies copies random boxes, by steps in random order, and compares the result
// with a plain copy of rows. That the mover is ready is one of the steps.
func TestChunksAgainstCopies(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 400 {
		r := newLoneRig()
		for _, b := range append([][]byte{r.d.guest}, r.d.device[lent], r.d.device[plain]) {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
		}
		base := []uint64{lent, plain}[random.IntN(2)]
		toDevice := random.IntN(2) == 0
		width, height, depth := 1+random.Uint64N(900), 1+random.Uint64N(4), 1+random.Uint64N(3)
		pitch, slice := width+random.Uint64N(2)*8, uint64(0)
		slice = pitch*height + random.Uint64N(2)*16
		hostPitch := width + random.Uint64N(2)*24
		hostSlice := hostPitch * height
		r.d.busy = random.IntN(2) == 0
		want := map[bool][]byte{true: bytes.Clone(r.d.device[base]),
			false: bytes.Clone(r.d.guest)}[toDevice]
		for z := range depth {
			for y := range height {
				dev, host := z*slice+y*pitch, z*hostSlice+y*hostPitch
				if toDevice {
					copy(want[dev:][:width], r.d.guest[host:])
				} else {
					copy(want[host:][:width], r.d.device[base][dev:])
				}
			}
		}
		kind := map[bool]uint64{true: 0, false: 1}[toDevice]
		result := r.do(gpubackend.OpCopyBox, true, base, pitch, slice, wire.BufferMap<<56, room,
			hostPitch, hostSlice,
			width, height, depth, kind, 0, 0)
		if result != call.Pending {
			t.Fatalf("round %d: %v", round, result)
		}
		var over []gpubackend.Result
		for range 10_000 {
			switch n := random.IntN(4); {
			case n == 0 && len(r.d.moving) > 0:
				r.mover.end(random.IntN(len(r.d.moving)), nil)
			case n == 1 && len(r.d.queue) > 0 && !r.d.busy:
				r.d.queue[0]()
				r.d.queue = r.d.queue[1:]
			case n == 2:
				r.d.busy = r.d.busy && random.IntN(4) > 0
			case n == 3 && r.reach.mover == nil:
				r.Connect(r.mover)
			}
			over = append(over, r.poll()...)
			if len(over) > 0 && !r.Active() {
				break
			}
		}
		got := map[bool][]byte{true: r.d.device[base], false: r.d.guest}[toDevice]
		if len(over) != 1 || over[0] != gpubackend.Success || r.maps.uses != 0 {
			t.Fatalf("round %d: over %v, %d uses", round, over, r.maps.uses)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: to the device %v, %dx%dx%d at %#x: other bytes", round, toDevice,
				width, height, depth, base)
		}
	}
}

// TestErrorsEndCopies: whichever step fails, the copy ends with the first error, and its pages are
// given back.
func TestErrorsEndCopies(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(r *rig)
		want gpubackend.Result
	}{
		"pages": {func(r *rig) { r.mover.end(0, errors.New("no such page")) },
			gpubackend.InvalidValue},
		"a loan": {func(r *rig) {
			r.EndLoans(lent, room)
			r.mover.end(0, errors.New("taken back"))
		}, gpubackend.InvalidValue},
		"mover": {func(r *rig) { r.d.mover = errors.New("broken pipe") },
			gpubackend.DeviceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			for _, base := range []uint64{lent, plain} {
				r.do(gpubackend.OpCopyDtoH, true, base, wire.BufferMap<<56, 4096, 4096, 0, 0)
			}
			var over []gpubackend.Result
			for range 100 {
				for len(r.d.queue) > 0 {
					r.d.queue[0]()
					r.d.queue = r.d.queue[1:]
				}
				over = append(over, r.poll()...)
				if len(r.d.moving) > 0 {
					tt.fail(r)
				}
			}
			if len(over) != 2 || over[0] != tt.want || over[1] != tt.want || r.Active() ||
				r.maps.uses != 0 {
				t.Errorf("over %v, active %v, %d uses", over, r.Active(), r.maps.uses)
			}
		})
	}
}

// TestJoinIsAnsweredLast: JOIN is answered after all parts, with their first error. Parts are never
// answered.
func TestJoinIsAnsweredLast(t *testing.T) {
	r := newRig()
	for range 3 {
		if got := r.do(gpubackend.OpCopyHtoD, false, lent, wire.BufferMap<<56, 64, 64, 0,
			wire.CopyFlagPart); got != call.Pending {
			t.Fatal(got)
		}
	}
	if got := r.do(gpubackend.Op(wire.OpJoin), true); got != call.Pending {
		t.Fatal(got)
	}
	for i := range 3 {
		if over := r.poll(); len(over) != 0 {
			t.Fatalf("answered %v with %d parts over", over, i)
		}
		r.mover.end(0, map[int]error{1: errors.New("no such page")}[i])
	}
	over := append(r.poll(), r.poll()...)
	if len(over) != 1 || over[0] != gpubackend.InvalidValue || len(r.failed) != 3 {
		t.Errorf("answered %v, failed %v", over, r.failed)
	}
	if got := r.do(gpubackend.Op(wire.OpJoin), true); got != gpubackend.Success {
		t.Errorf("the next JOIN: %v", got)
	}
}
