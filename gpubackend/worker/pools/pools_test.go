// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"io"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/contexts"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/fences"
	"github.com/paracuda/paracuda/gpubackend/worker/offers/offerstest"
)

// fakeDriver has memory, and events that are done when it says so.
type fakeDriver struct {
	Capturing
	next   uint64
	live   map[uint64]uint64
	limit  uint64
	event  gpubackend.Event
	ready  gpubackend.Result
	mapped []uint64
	access []command.PoolAccess // that was given and taken back
}

func (d *fakeDriver) SetCurrent(gpubackend.Context) gpubackend.Result { return gpubackend.Success }

func (d *fakeDriver) MemAlloc(bytes uint64) (uint64, gpubackend.Result) {
	used := uint64(0)
	for _, n := range d.live {
		used += n
	}
	if used+bytes > d.limit {
		return 0, gpubackend.OutOfMemory
	}
	d.next += 1 << 20
	d.live[d.next] = bytes
	return d.next, gpubackend.Success
}

func (d *fakeDriver) MemAllocNow(bytes uint64) (uint64, bool, gpubackend.Result) {
	address, result := d.MemAlloc(bytes)
	return address, false, result
}

func (d *fakeDriver) MemFree(addr uint64) gpubackend.Result {
	if _, ok := d.live[addr]; !ok {
		return gpubackend.InvalidValue
	}
	delete(d.live, addr)
	return gpubackend.Success
}

func (d *fakeDriver) EventCreate(uint64) (gpubackend.Event, gpubackend.Result) {
	d.event++
	return d.event, gpubackend.Success
}

func (d *fakeDriver) EventRecordWithFlags(
	gpubackend.Event, gpubackend.Stream, uint64,
) gpubackend.Result {
	return gpubackend.Success
}
func (d *fakeDriver) EventQuery(gpubackend.Event) gpubackend.Result { return d.ready }

func (d *fakeDriver) GraphFree(uint64, gpubackend.Stream) gpubackend.Result {
	return gpubackend.NotFound
}

func (d *fakeDriver) Share(addr uint64) (gpubackend.Shared, int, gpubackend.Result) {
	fd, err := unix.MemfdCreate("segment", unix.MFD_CLOEXEC)
	if err != nil {
		return gpubackend.Shared{}, -1, gpubackend.Unknown
	}
	return gpubackend.Shared{Bytes: 4 << 20, Offset: addr % (4 << 20)}, fd, gpubackend.Success
}

// What other processes offer is mapped at 1 << 40, and everything more at the next segment.
func (d *fakeDriver) MapShared(s gpubackend.Shared, _ int) (uint64, gpubackend.Result) {
	at := uint64(1<<40) + uint64(len(d.mapped))*s.Bytes
	d.mapped = append(d.mapped, at)
	return at, gpubackend.Success
}

func (d *fakeDriver) TakeShared(addr uint64, _ gpubackend.Shared, _ int) gpubackend.Result {
	if addr < 1<<40 || slices.Contains(d.mapped, addr) {
		return gpubackend.InvalidValue
	}
	d.mapped = append(d.mapped, addr)
	return gpubackend.Success
}

func (d *fakeDriver) UnmapShared(addr uint64) gpubackend.Result {
	i := slices.Index(d.mapped, addr)
	if i < 0 {
		return gpubackend.InvalidValue
	}
	d.mapped = slices.Delete(d.mapped, i, i+1)
	return gpubackend.Success
}

// PoolAccess knows four GPUs.
func (d *fakeDriver) PoolAccess(device, of, access uint64) gpubackend.Result {
	if device > 3 || of > 3 || device == of {
		return gpubackend.InvalidDevice
	}
	d.access = append(d.access, command.PoolAccess{Device: device, Of: of, Access: access})
	return gpubackend.Success
}

// fakeExports notes what is offered.
type fakeExports struct {
	exports.Interface
	last    uint32
	offered []handover.Object
}

func (x *fakeExports) Number() uint32   { x.last++; return x.last }
func (x *fakeExports) GaveOut(n uint32) { x.last = max(x.last, n) }
func (x *fakeExports) Offer(o handover.Object, _ uint64, _ int) gpubackend.Result {
	x.offered = append(x.offered, o)
	return gpubackend.Success
}

// rig is Pools on a fake device, in a context.
type rig struct {
	*Pools
	driver  *fakeDriver
	objects object.Table
	context uint64
}

// hub is the device process of all rigs.
var hub = offerstest.New()

// bareRig has no pools yet.
func bareRig(limit uint64) *rig {
	r := &rig{driver: &fakeDriver{live: map[uint64]uint64{}, limit: limit}}
	c := contexts.New(r.driver, &r.objects, func() {})
	log := logrus.New()
	log.SetOutput(io.Discard)
	own, _ := hub.Worker()
	r.Pools = New(Config{
		Driver: r.driver, Objects: &r.objects, Contexts: c, Fences: fences.New(r.driver, c),
		Exports: &fakeExports{}, Offers: own,
		Withdraw: func(uint64) {}, Log: logrus.NewEntry(log),
	})
	r.context = r.objects.Add(object.Context, 1, 0)
	c.Set(r.context, true)
	return r
}

func newRig(t *testing.T, limit uint64) (*rig, *pool) {
	t.Helper()
	r := bareRig(limit)
	p, result := r.findPool(r.defaultPool(0))
	if again := r.defaultPool(0); result != gpubackend.Success || again != r.defaultPool(0) {
		t.Fatal("no default pool")
	}
	return r, p
}

// free frees an allocation in a stream.
func (r *rig) free(t *testing.T, b *allocation, stream uint64) {
	t.Helper()
	f, result := r.Fences.Mark(gpubackend.Stream(stream))
	if result != gpubackend.Success {
		t.Fatal(result)
	}
	b.stream, b.fence, b.fenced = stream, f, true
	r.giveBack(b)
}

func (r *rig) take(t *testing.T, p *pool, bytes, stream uint64) *allocation {
	t.Helper()
	b, _, result := r.Pools.take(p, bytes, stream, true)
	if result != gpubackend.Success {
		t.Fatalf("%d bytes: %d", bytes, result)
	}
	r.enter(b)
	return b
}

func TestPoolReuse(t *testing.T) {
	r, p := newRig(t, 1<<30)
	r.driver.ready = gpubackend.NotReady
	a := r.take(t, p, 4096, 7)
	r.free(t, a, 7)
	if b := r.take(t, p, 4096, 8); b.address == a.address {
		t.Error("another stream got memory that the first one may still use")
	}
	b := r.take(t, p, 4096, 7)
	if b.address != a.address {
		t.Error("the stream didn't get its own memory back")
	}
	r.free(t, b, 7)
	r.driver.ready = gpubackend.Success
	if c := r.take(t, p, 4096, 9); c.address != a.address {
		t.Error("idle memory isn't used again")
	}
	if p.attribute[cudaabi.MemPoolAttrUsedMemCurrent] != 2*4096 ||
		p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] != 2*4096 {
		t.Errorf("used %d, reserved %d", p.attribute[cudaabi.MemPoolAttrUsedMemCurrent],
			p.attribute[cudaabi.MemPoolAttrReservedMemCurrent])
	}
}

func TestPoolThreshold(t *testing.T) {
	r, p := newRig(t, 1<<30)
	p.attribute[cudaabi.MemPoolAttrReleaseThreshold] = 8192
	var allocations []*allocation
	for range 4 {
		allocations = append(allocations, r.take(t, p, 4096, 7))
	}
	for _, b := range allocations {
		r.free(t, b, 7)
	}
	r.driver.ready = gpubackend.NotReady
	r.Settle()
	if len(r.driver.live) != 4 {
		t.Errorf("%d allocations: memory in use was given back", len(r.driver.live))
	}
	r.driver.ready = gpubackend.Success
	r.Settle()
	if len(r.driver.live) != 2 || p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] != 8192 {
		t.Errorf("%d allocations, %d bytes reserved", len(r.driver.live),
			p.attribute[cudaabi.MemPoolAttrReservedMemCurrent])
	}
	if !r.Empty() || len(r.driver.live) != 0 {
		t.Errorf("%d allocations after emptying", len(r.driver.live))
	}
	if p.attribute[cudaabi.MemPoolAttrReservedMemHigh] != 4*4096 ||
		p.attribute[cudaabi.MemPoolAttrUsedMemCurrent] != 0 {
		t.Errorf("high %d, used %d", p.attribute[cudaabi.MemPoolAttrReservedMemHigh],
			p.attribute[cudaabi.MemPoolAttrUsedMemCurrent])
	}
}

func TestPoolForgetsContext(t *testing.T) {
	r, p := newRig(t, 1<<30)
	a := r.take(t, p, 512, 7)
	r.take(t, p, 512, 7)
	r.free(t, a, 7)
	r.Forget(r.context)
	if len(r.live) != 0 || len(p.free) != 0 ||
		p.attribute[cudaabi.MemPoolAttrReservedMemCurrent] != 0 ||
		p.attribute[cudaabi.MemPoolAttrUsedMemCurrent] != 0 {
		t.Errorf("left: %d live, %d free, %v", len(r.live), len(p.free), p.attribute)
	}
}

func TestOfferedSegmentsAreBounded(t *testing.T) {
	r, p := newRig(t, 1<<30)
	p.shareable()
	one, other := r.take(t, p, 512, 0), r.take(t, p, 512, 0)
	x, result := r.offerSegment(one, r.Offers.OpenMemory)
	if result != gpubackend.Success {
		t.Fatal(result)
	}
	defer x.offer.Close()
	same, result := r.offerSegment(other, r.Offers.OpenMemory)
	if same != x || x.allocations != 2 || result != gpubackend.Success {
		t.Errorf("a segment is offered twice: %v", result)
	}
	for i := range uint64(maxOfferedSegments) {
		r.shares.offered[1<<40+i] = &offeredSegment{}
	}
	far := &allocation{pool: p, address: 1 << 41}
	if _, result := r.offerSegment(far, r.Offers.OpenMemory); result != gpubackend.OutOfMemory {
		t.Errorf("one more segment: %v", result)
	}
}
