// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/devmem"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
)

// engine is a driver whose copies are done at any time between the call and the end of a wait for
// their stream.
type engine struct {
	fake
	t       *testing.T
	random  *rand.Rand
	device  []byte // from devmem.Base on
	queued  map[gpubackend.Stream][]func()
	streams int
	work    activity.Activity
	blocks  map[uint64]cmem.Memory
	fail    int // the copy that fails; -1: none
}

func newEngine(t *testing.T, seed uint64) *engine {
	t.Helper()
	e := &engine{
		t: t, random: rand.New(rand.NewPCG(seed, 3)), device: make([]byte, 90<<20), fail: -1,
		queued: map[gpubackend.Stream][]func(){}, blocks: map[uint64]cmem.Memory{},
	}
	t.Cleanup(func() {
		if len(e.blocks) > 0 || e.streams > 0 {
			t.Errorf("%d buffers and %d streams are left", len(e.blocks), e.streams)
		}
		if s, left := e.work.Latest(); left {
			t.Errorf("stream %d is gone, and still to be asked for its work", s)
		}
	})
	return e
}

func (e *engine) MemHostAlloc(n uint64) (uint64, gpubackend.Result) {
	b := cmem.Allocate(int(n))
	e.blocks[b.Address()] = b
	return b.Address(), gpubackend.Success
}

func (e *engine) MemFreeHost(address uint64) gpubackend.Result {
	b := e.blocks[address]
	delete(e.blocks, address)
	b.Free()
	return gpubackend.Success
}

func (e *engine) StreamCreateWithPriority(_, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	e.streams++
	return gpubackend.Stream(100 + e.streams), gpubackend.Success
}

func (e *engine) StreamDestroy(s gpubackend.Stream) gpubackend.Result {
	e.streams--
	return e.StreamSynchronize(s)
}

func (e *engine) StreamSynchronize(s gpubackend.Stream) gpubackend.Result {
	for _, f := range e.queued[s] {
		f()
	}
	delete(e.queued, s)
	return gpubackend.Success
}

// queue is told of each copy, and notes its stream as the driver's calls do.
func (e *engine) queue(s gpubackend.Stream, copy func()) gpubackend.Result {
	e.work.Touch(s)
	if e.fail--; e.fail == -1 {
		return gpubackend.Unknown
	}
	if e.random.IntN(2) == 0 && len(e.queued[s]) == 0 {
		copy()
	} else {
		e.queued[s] = append(e.queued[s], copy)
	}
	return gpubackend.Success
}

func (e *engine) MemcpyDtoHAsync(
	dst, src, n uint64, s gpubackend.Stream,
) gpubackend.Result {
	return e.queue(s, func() { copy(cmem.At(dst, int(n)), e.device[src-devmem.Base:]) })
}

func (e *engine) MemcpyHtoDAsync(
	dst, src, n uint64, s gpubackend.Stream,
) gpubackend.Result {
	return e.queue(s, func() { copy(e.device[dst-devmem.Base:][:n], cmem.At(src, int(n))) })
}

// TestPump copies pieces of all sizes out and in.
func TestPump(t *testing.T) {
	for seed := range uint64(2) {
		e := newEngine(t, seed)
		var list []gpubackend.Piece
		for at := uint64(0); ; {
			n := (1 + e.random.Uint64N(20)) * devmem.Granularity
			if at+n > uint64(len(e.device)) {
				break
			}
			list = append(list, gpubackend.Piece{Address: devmem.Base + at, Bytes: n})
			at += n + e.random.Uint64N(3)*devmem.Granularity
		}
		for i := range e.device {
			e.device[i] = byte(i>>9) ^ byte(i)
		}
		before, image := bytes.Clone(e.device), make([]byte, gpubackend.PieceBytes(list))
		pumped(t, e, func(p *pump) gpubackend.Result { return p.out(list, image) })
		var scattered []portion // the same, last to first
		copied := make([]byte, len(image))
		for _, x := range portions(list, copied) {
			scattered = append([]portion{x}, scattered...)
		}
		pumped(t, e, func(p *pump) gpubackend.Result { return p.outPortions(scattered) })
		if !bytes.Equal(copied, image) {
			t.Fatalf("seed %d: portions that are copied in another order are others", seed)
		}
		at := 0
		for _, p := range list {
			has := before[p.Address-devmem.Base:][:p.Bytes]
			if !bytes.Equal(image[at:at+len(has)], has) {
				t.Fatalf("seed %d: the image of %+v is wrong", seed, p)
			}
			clear(e.device[p.Address-devmem.Base:][:p.Bytes])
			at += len(has)
		}
		pumped(t, e, func(p *pump) gpubackend.Result { return p.in(list, image) })
		if !bytes.Equal(e.device, before) {
			t.Fatalf("seed %d: the device's memory is not as before", seed)
		}
	}
}

func pumped(t *testing.T, e *engine, f func(*pump) gpubackend.Result) {
	t.Helper()
	p, r := newPump(e, &e.work)
	if r == gpubackend.Success {
		r = f(p)
	}
	if p.close(); r != gpubackend.Success {
		t.Fatalf("copy: %d", r)
	}
}

// TestPumpFails: whichever copy fails, the error gets out, and nothing is left.
func TestPumpFails(t *testing.T) {
	const copies = parcels + 2
	list := []gpubackend.Piece{{Address: devmem.Base, Bytes: copies * parcelBytes}}
	image := make([]byte, copies*parcelBytes)
	for at := range copies {
		for _, f := range []func(*pump) gpubackend.Result{
			func(p *pump) gpubackend.Result { return p.out(list, image) },
			func(p *pump) gpubackend.Result { return p.in(list, image) },
		} {
			e := newEngine(t, 1)
			e.fail = at
			p, _ := newPump(e, &e.work)
			if r := f(p); r != gpubackend.Unknown {
				t.Errorf("copy %d fails: %d", at, r)
			}
			p.close()
			if len(e.blocks) > 0 || e.streams > 0 {
				t.Errorf("%d buffers and %d streams are left", len(e.blocks), e.streams)
			}
		}
	}
}

// TestLeaveAndReturn: the driver has the memory back, and gives other memory at the same addresses.
func TestLeaveAndReturn(t *testing.T) {
	r := newRoom(t)
	small, large := r.alloc(t, 512), r.alloc(t, 20<<20)
	staging, fd, result := r.Staging(1 << 20)
	if result != gpubackend.Success || fd < 0 {
		t.Fatalf("staging: %d", result)
	}
	defer unix.Close(fd)
	list := r.Pieces()
	if len(list) != 2 || list[0].Address > small || list[1].Address != large {
		t.Fatalf("pieces %+v of allocations at %#x and %#x", list, small, large)
	}
	if result := r.LeavePieces(list); result != gpubackend.Success {
		t.Fatalf("leave: %d", result)
	}
	if len(r.fake.mapped) != 1 || r.fake.mapped[staging] == 0 || len(r.fake.live) != 0 {
		t.Errorf("mapped are %v, handles %v", r.fake.mapped, r.fake.live)
	}
	if _, result := r.MemAlloc(512); result != gpubackend.OutOfMemory {
		t.Errorf("allocate meanwhile: %d", result)
	}
	r.fake.refuse = "create"
	if result := r.ReturnPieces(list); result != gpubackend.OutOfMemory || len(r.fake.mapped) != 1 {
		t.Errorf("return without room: %d, mapped are %v", result, r.fake.mapped)
	}
	r.fake.refuse = ""
	if result := r.ReturnPieces(list); result != gpubackend.Success {
		t.Errorf("return: %d", result)
	}
	for _, p := range list {
		if r.fake.mapped[p.Address] != p.Bytes {
			t.Errorf("%+v isn't mapped", p)
		}
	}
	if result := r.LeavePieces([]gpubackend.Piece{{Address: 5}}); result !=
		gpubackend.InvalidValue {
		t.Errorf("leave what isn't there: %d", result)
	}
	r.alloc(t, 512)
}

// TestPiecesOfTheDead: what nobody can copy stays.
func TestPiecesOfTheDead(t *testing.T) {
	r := newRoom(t)
	r.alloc(t, 512)
	r.x.Failed(gpubackend.IllegalAddress)
	if list := r.Pieces(); len(list) != 0 {
		t.Errorf("pieces %+v", list)
	}
}

// TestNothingIsFreedBesideWork: the driver would wait for the work, which may never end.
func TestNothingIsFreedBesideWork(t *testing.T) {
	r := newRoom(t)
	c := r.x.Current()
	page := r.alloc(t, sectorsum.Bytes)
	list := []gpubackend.Piece{{Address: page, Bytes: sectorsum.Bytes}}
	for _, end := range []func(){r.EndCopies, func() { r.Ended(c) }} {
		r.work()
		r.pumps[c] = &pump{calls: r.fake, work: &c.Work}
		r.EndCopies()
		if r.pumps[c] == nil {
			t.Error("buffers are freed beside work")
		}
		is(t, "sums beside work", r.SumPieces(1, list, make([]uint64, 1)), gpubackend.NotReady)
		r.settle()
		if end(); len(r.pumps) > 0 {
			t.Error("buffers are left")
		}
	}
}
