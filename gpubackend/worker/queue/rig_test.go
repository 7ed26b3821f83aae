// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/wire/wiretest"
	"github.com/paracuda/paracuda/gpubackend/worker/dirty"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
	"github.com/paracuda/paracuda/virtqueue/virtqueuetest"
)

// rig is a queue, and the guest's kernel as it sees maps that are kept.
type rig struct {
	*Queue
	t      *testing.T
	guest  *virtqueuetest.Guest // its own view: the queue has another mapping of the memory
	host   *budget.Budget
	driver *virtqueuetest.Driver
	has    map[uint32]bool // maps whose pages the queue has, by the records that it wrote
}

// Where the guest has the records of EVENT and MAP chains, and their headers and lists.
const (
	recordsAt   = 0x10000
	mapRecords  = recordsAt + wire.EventRecordSize
	eventAt     = 0x20000
	chainsAt    = 0x21000
	keptAddress = 0x7000_0000_0000 // of a map, in the program
)

func newRig(t *testing.T) *rig {
	t.Helper()
	text := logrus.New()
	text.SetOutput(io.Discard)
	state, err := handover.NewState()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(state.Close)
	g := virtqueuetest.NewGuest(t, virtqueuetest.Span{Addr: 0, Size: 4 << 20})
	g.Alloc(4096, 4096)
	mem, err := guestmem.NewSparse([]guestmem.Region{{Size: g.Spans[0].Size, FD: g.FDs[0]}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	r := &rig{t: t, guest: g, host: budget.New(1 << 40), has: map[uint32]bool{},
		driver: virtqueuetest.NewDriver(g, 16, false)}
	r.Queue = New(Config{State: state, Host: r.host, Dirty: &dirty.Pages{}, Call: -1,
		Attach: func(*arena.Arena) {}, Log: logrus.NewEntry(text)})
	if err := r.Start(mem, &handover.Queue{Size: 16, Desc: r.driver.Desc,
		Avail: r.driver.Avail, Used: r.driver.Used}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func (r *rig) write(at uint64, b []byte) { r.guest.Write(at, b) }

func (r *rig) word(at uint64) uint32 {
	r.t.Helper()
	return binary.LittleEndian.Uint32(r.guest.Read(at, 4))
}

// offer makes a page available as a MAP with a record, and has the worker take it.
func (r *rig) offer(id uint32) {
	r.t.Helper()
	at, record := chainsAt+uint64(id%64)*256, mapRecords+uint64(id%64)*wire.MapRecordSize
	wiretest.Chain(r.write, at,
		wire.ChainHeader{Type: wire.ChainMap, Id: id, Bytes: 4096, Address: keptAddress},
		wire.Run{Address: 0x300000, Bytes: 4096})
	r.write(record, make([]byte, wire.MapRecordSize))
	_, err := r.driver.Add(virtqueuetest.Desc{Addr: at, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: record, Len: wire.MapRecordSize, Flags: virtqueuetest.Write})
	if err != nil {
		r.t.Fatal(err)
	}
	r.take()
	if written := r.reap(); r.word(record) == 1 && written == wire.MapRecordSize {
		if r.has[id] {
			r.t.Fatalf("map %d is kept twice", id)
		}
		r.has[id] = true
	} else if written != 0 {
		r.t.Fatalf("map %d: %d bytes were written", id, written)
	}
}

func (r *rig) take() {
	r.t.Helper()
	if _, err := r.Take(); err != nil {
		r.t.Fatal(err)
	}
}

// reap takes one chain back, and says how much was written to it.
func (r *rig) reap() uint32 {
	r.t.Helper()
	_, written, ok := r.driver.Reap()
	if !ok {
		r.t.Fatal("no chain came back")
	}
	return written
}

// listen makes an EVENT available, has the worker signal, and returns the maps that it names.
func (r *rig) listen() (ids []uint32) {
	r.t.Helper()
	wiretest.Chain(r.write, eventAt, wire.ChainHeader{Type: wire.ChainEvent})
	_, err := r.driver.Add(virtqueuetest.Desc{Addr: eventAt, Len: wire.ChainHeaderSize},
		virtqueuetest.Desc{Addr: recordsAt, Len: wire.EventRecordSize,
			Flags: virtqueuetest.Write})
	if err != nil {
		r.t.Fatal(err)
	}
	r.take()
	r.Signal()
	written := r.reap()
	count := r.word(recordsAt + wire.EventRecordCountOffset)
	if r.word(recordsAt) != wire.EventReturned || written != wire.EventRecordMapsOffset+4*count {
		r.t.Fatalf("events %d, %d maps in %d bytes", r.word(recordsAt), count, written)
	}
	for i := range uint64(count) {
		id := r.word(recordsAt + wire.EventRecordMapsOffset + 4*i)
		if !r.has[id] {
			r.t.Fatalf("map %d goes back, which wasn't kept", id)
		}
		delete(r.has, id)
		ids = append(ids, id)
	}
	return ids
}

// unmap gives a map back, and says whether there was one.
func (r *rig) unmap(id uint32) bool {
	m := r.Find(id)
	if m == nil {
		return false
	}
	r.Return(m)
	return true
}
