// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// otherSavedBase is where a second program has its device memory.
const otherSavedBase = savedBase + 1<<40

// partner is a program that shares memory, an event and a pool with another one.
type partner struct {
	*rig
	end            func()
	memory, event  uint64
	handle, signal []uint64 // what the guest hands on
	mapped, whole  uint64   // the other one's memory
	opened         uint64   // its event

	conn           *handover.Conn
	place          uint64 // where it maps memory without an address
	created, taken uint64 // its own, and the other one's

	pool, pooled uint64   // and memory of it
	pointer      []uint64 // that the guest hands on
	same, points uint64   // the other one's pool, and memory of it
}

// newPartner has something to share.
func newPartner(t *testing.T, base uint64) *partner {
	t.Helper()
	p := &partner{}
	p.rig, p.end = freshAt(t, base)
	p.conn = p.dial(t)
	p.equip(p.Worker.driver) // with that connection
	if result := p.hello.Reopen(nil); result != gpubackend.Success {
		t.Fatalf("open: %d", result)
	}
	p.context = p.does(t, gpubackend.OpDevicePrimaryCtxRetain, 0)
	p.does(t, gpubackend.OpMemAlloc, 512)
	p.memory = p.does(t, gpubackend.OpMemAlloc, 5*piece)
	p.event = p.does(t, gpubackend.OpEventCreate,
		cudaabi.EventInterprocess|cudaabi.EventDisableTiming)
	p.does(t, gpubackend.OpIpcGetMemHandle, p.memory)
	s := p.slot()
	p.handle = copyOf(s.Word[:5])
	p.does(t, gpubackend.OpIpcGetEventHandle, p.event)
	s = p.slot()
	p.signal = copyOf(s.Word[:2])
	p.place = savedPlace + (base-savedBase)>>10
	p.does(t, gpubackend.OpMemAddressReserve, p.place, 2*piece)
	p.created = p.does(t, gpubackend.OpMemCreate, piece, 0, 0)
	p.maps(t, p.place, p.created)
	p.pool = p.does(t, gpubackend.OpMemPoolCreate, 0, 0, pools.HandlePosixFile)
	p.pooled, p.pointer = exported(t, p.rig, p.pool, 4096)
	return p
}

// takes has what another one shares.
func (p *partner) takes(t *testing.T, from *partner) {
	t.Helper()
	p.mapped = p.does(t, gpubackend.OpIpcOpenMemHandle, from.handle...)
	p.whole = p.slot().Word[1]
	p.opened = p.does(t, gpubackend.OpIpcOpenEventHandle, from.signal...)
	from.does(t, gpubackend.OpMemExportToShareableHandle, from.created)
	m, fds := offerOf(t, from.conn)
	o := *m.Object
	o.ID, o.Import = 40, 3
	hand(t, p.rig, o, fds[0])
	p.taken = p.does(t, gpubackend.OpMemImportFromShareableHandle, 3)
	p.maps(t, p.place+piece, p.taken)
	from.does(t, gpubackend.OpMemPoolExportToShareableHandle, from.pool)
	m, _ = offerOf(t, from.conn)
	o = *m.Object
	o.Import = 4
	hand(t, p.rig, o, -1)
	p.same = p.does(t, gpubackend.OpMemPoolImportFromShareableHandle, 4)
	p.points = p.pointsTo(t, from)
}

// pointsTo maps memory of the other one's pool.
func (p *partner) pointsTo(t *testing.T, from *partner) uint64 {
	t.Helper()
	return p.does(t, gpubackend.OpMemPoolImportPointer,
		append([]uint64{p.same}, from.pointer...)...)
}

// maps maps memory without an address.
func (p *partner) maps(t *testing.T, at, memory uint64) {
	t.Helper()
	p.does(t, gpubackend.OpMemMap, at, piece, memory)
	p.does(t, gpubackend.OpMemSetAccess, at, piece, 0, gpubackend.AccessReadWrite)
}

// again is the program, which ends, in another worker, which waits for its partner.
func (p *partner) again(t *testing.T, base uint64, s sections) *partner {
	t.Helper()
	q := *p
	q.rig, q.end = freshAt(t, base)
	if err := q.restoreSections(t, s); err != nil {
		t.Fatal(err)
	}
	q.context = p.context
	if err := q.saving.Unsavable(); err == nil {
		t.Error("it can be saved before it has what the other one shares")
	}
	return &q
}

// isLost has a program go on from a record whose partner has ended: it isn't in the way of others,
// and it alone ends as soon as it is to go on. What has no partner's fault is refused.
func (p *partner) isLost(t *testing.T, s sections) {
	t.Helper()
	q := p.again(t, savedBase, s)
	defer q.end()
	c := q.dial(t)
	if err := q.join(); err != nil {
		t.Fatal(err)
	}
	if m, _, err := c.Receive(); err != nil || m.Kind != handover.KindJoined || m.Error != "" ||
		!errors.Is(q.lost, offers.ErrNone) {
		t.Errorf("the partner is gone: %+v, %v; it ends with %v", m, err, q.lost)
	}
	if q.saving.Unsavable() == nil {
		t.Error("it can be saved without what it had of its partner")
	}
	q.lost = nil
	offer, err := q.offers.OpenAs(offers.Secret(p.nameOfTaken(t, s)), offers.Memory,
		make([]byte, 16), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer offer.Close()
	if err := q.join(); err != nil {
		t.Fatal(err)
	}
	if m, _, err := c.Receive(); err != nil || m.Error == "" || q.lost != nil {
		t.Errorf("something else is offered: %+v, %v; it ends with %v", m, err, q.lost)
	}
}

// nameOfTaken is the name of what a saved program has of its partner.
func (p *partner) nameOfTaken(t *testing.T, s sections) []byte {
	t.Helper()
	x, err := saved.Decode(s[savedvm.StateName])
	if err != nil || len(x.Shared.Mapped) != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	return x.Shared.Mapped[0].Name
}

// goesOnWithPool has the other one map memory of the pool anew, and both use it.
func (p *partner) goesOnWithPool(t *testing.T, other *partner) {
	t.Helper()
	other.want(t, gpubackend.AlreadyMapped, gpubackend.OpMemPoolImportPointer,
		append([]uint64{other.same}, p.pointer...)...)
	other.does(t, gpubackend.OpMemFree, other.points)
	other.points = other.pointsTo(t, p)
	fresh, words := exported(t, p.rig, p.pool, 4096) // it is the same pool
	at := other.does(t, gpubackend.OpMemPoolImportPointer,
		append([]uint64{other.same}, words...)...)
	space.Bytes(fresh, 1)[0] = 3
	if got := space.Bytes(at, 1)[0]; got != 3 || fresh == p.pooled {
		t.Errorf("at %#x of the other one's pool is %d, want 3", at, got)
	}
	space.Bytes(other.points, 1)[0] = 14
	if got := space.Bytes(p.pooled, 1)[0]; got != 14 {
		t.Errorf("what the other one wrote to memory of the pool is %d, want 14", got)
	}
	other.does(t, gpubackend.OpMemFree, at)
	p.does(t, gpubackend.OpMemFreeAsync, fresh, 0)
}

// TestSharedIsRestored: two programs that share memory and events with each other go on in other
// workers, with the same addresses and handles, and share them as before. A third one can have it,
// too.
func TestSharedIsRestored(t *testing.T) {
	a, b := newPartner(t, savedBase), newPartner(t, otherSavedBase)
	a.takes(t, b)
	b.takes(t, a)
	space.Bytes(a.memory, 5*piece)[7] = 71
	space.Bytes(a.mapped, 5*piece)[9] = 92
	space.Bytes(b.place+piece, 1)[0] = 5
	space.Bytes(b.points, 4096)[4] = 41
	savedA, savedB := a.saved(t), b.saved(t)
	a.end()
	b.end()
	a.isLost(t, savedA)
	a = a.again(t, savedBase, savedA)
	defer a.end()
	b = b.again(t, otherSavedBase, savedB)
	defer b.end()
	for _, p := range []*partner{a, b} {
		if err := errors.Join(p.saving.Join(), p.saving.Unsavable()); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[uint64]byte{a.memory + 7: 71, b.mapped + 7: 71, b.memory + 9: 92,
		a.mapped + 9: 92, a.place: 5, b.place + piece: 5, a.pooled + 4: 41, b.points + 4: 41} {
		if got := space.Bytes(at, 1)[0]; got != want {
			t.Errorf("at %#x is %d, want %d", at, got, want)
		}
	}
	space.Bytes(a.place+piece, 1)[0] = 6
	if got := space.Bytes(b.place, 1)[0]; got != 6 {
		t.Errorf("what the other one wrote to memory of cuMemCreate is %d, want 6", got)
	}
	space.Bytes(b.mapped, 5*piece)[11] = 13
	if got := space.Bytes(a.memory, 5*piece)[11]; got != 13 {
		t.Errorf("what the other one wrote is %d, want 13", got)
	}
	a.goesOnWithPool(t, b)
	a.does(t, gpubackend.OpEventRecordWithFlags, a.event, 0, 0)
	b.does(t, gpubackend.OpStreamWaitEvent, 0, b.opened, 0)
	b.does(t, gpubackend.OpIpcCloseMemHandle, b.whole)
	b.mapped = b.does(t, gpubackend.OpIpcOpenMemHandle, a.handle...)
	if got := space.Bytes(b.mapped, 5*piece)[11]; got != 13 {
		t.Errorf("opened once more, it is %d, want 13", got)
	}
	a.want(t, gpubackend.InvalidContext, gpubackend.OpIpcOpenMemHandle, a.handle...)
	a.does(t, gpubackend.OpMemFree, a.memory)
	b.want(t, gpubackend.InvalidValue, gpubackend.OpIpcOpenMemHandle, a.handle...)
	if err := b.saving.Unsavable(); !errors.Is(err, offers.ErrNone) {
		t.Errorf("it has memory that the other one has freed: %v", err)
	}
}
