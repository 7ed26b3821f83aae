// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// protect lets the queue touch the guest's memory only like that.
func (r *rig) protect(at, n uint64, prot int) {
	r.t.Helper()
	b, err := r.mem.Slice(at, n)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := unix.Mprotect(b, prot); err != nil {
		r.t.Fatal(err)
	}
}

// TestTouchesOnlyExposedPages: a worker writes to its rings and to its page of records, reads
// headers and lists, and touches nothing else of the guest's memory by itself.
func TestTouchesOnlyExposedPages(t *testing.T) {
	r := newRig(t)
	r.unmapLater()
	r.protect(0, r.guest.Spans[0].Size, unix.PROT_NONE)
	r.protect(r.driver.Desc&^(pageSize-1), pageSize, unix.PROT_READ|unix.PROT_WRITE)
	r.protect(recordsAt, pageSize, unix.PROT_READ|unix.PROT_WRITE)
	r.protect(eventAt, 0x10000, unix.PROT_READ)

	r.offerArena(arenaRun)
	var runs []wire.Run
	for i := range uint64(2*wire.RunsPerList + 1) {
		runs = append(runs, wire.Run{Address: 0x200000 + 8192*i%0x100000, Bytes: 4096})
	}
	h := wire.ChainHeader{Type: wire.ChainMap, Id: 5, Bytes: 4096, Flags: wire.MapFlagOneshot}
	r.chain(chainsAt+0x4000, h, runs...)
	r.take()
	r.offer(8)
	r.offer(9)
	m := r.Find(5)
	if r.arena == nil || m == nil || !slices.Equal(m.Runs, runs) || !r.has[8] || !r.has[9] {
		t.Fatalf("arena %v, map %+v, kept %v", r.arena, m, r.has)
	}
	r.Return(m)
	r.reap()
	r.Return(r.Find(9))
	if ids := r.listen(); !slices.Equal(ids, []uint32{9}) {
		t.Errorf("the guest is told of %v", ids)
	}
	if s := r.Saved(); len(s.Maps) != 1 {
		t.Errorf("%+v", s)
	}
	// It would be noticed.
	if err := r.Write([]byte{1}, eventAt); !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("a write to a header: %v", err)
	}
	if err := r.Read(make([]byte, 1), 0x200000); !errors.Is(err, guestmem.ErrFault) {
		t.Errorf("a read elsewhere: %v", err)
	}
}
