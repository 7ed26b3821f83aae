// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

const manyFiles = 1 << 20

// files is how many descriptors of this process are of memory that offered made. Others come and go
// beside a test: what an earlier one left to the collector, say.
func files(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range list {
		// the descriptor that the folder was read by is closed by now
		to, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if strings.HasPrefix(to, "/memfd:object") {
			n++
		}
	}
	return n
}

// offered has a worker offer memory.
func offered(t *testing.T, e *Exports, w *Worker, number uint32, bytes uint64) {
	t.Helper()
	fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	o := handover.Object{Kind: handover.ObjectMemory, Number: number, Bytes: bytes, ID: 99,
		Own: true}
	e.Receive(w, &handover.Message{Object: &o, Files: handover.Files{Object: true}}, []int{fd})
}

func claimed(
	t *testing.T, e *Exports, w *Worker, number uint32, limit uint64, want uint32,
) uint32 {
	t.Helper()
	handle, status := e.Claim(w, number, limit)
	if status != want {
		t.Fatalf("claim of %d: status %d, want %d", number, status, want)
	}
	return handle
}

func taken(
	t *testing.T, e *Exports, handle uint32, by *Worker, want uint32,
) handover.Object {
	t.Helper()
	o, fd, status := e.Take(handle, by)
	handover.CloseFiles([]int{fd})
	if status != want || (fd >= 0) != (want == wire.StatusOk) {
		t.Fatalf("handle %d: status %d, file %d, want status %d", handle, status, fd, want)
	}
	return o
}

func TestHandlesAreLookedUp(t *testing.T) {
	before := files(t)
	e, one, other := New(manyFiles), &Worker{}, &Worker{}
	offered(t, e, one, 7, 10)
	claimed(t, e, one, 8, 0, wire.StatusNoObject)
	claimed(t, e, other, 7, 0, wire.StatusNoObject)
	a, b := claimed(t, e, one, 7, 0, wire.StatusOk), claimed(t, e, one, 7, 0, wire.StatusOk)
	if a == b || a == 0 || b == 0 {
		t.Fatalf("handles %d and %d", a, b)
	}
	x, y := taken(t, e, a, one, wire.StatusOk), taken(t, e, b, other, wire.StatusOk)
	if x.ID != y.ID || !x.Own || y.Own || x.Import == y.Import || x.Number != 7 || x.Bytes != 10 {
		t.Errorf("objects %+v, %+v", x, y)
	}
	taken(t, e, 0, one, wire.StatusNoObject)
	taken(t, e, b+1, one, wire.StatusNoObject)
	offered(t, e, one, 7, 1000) // again: the first stays
	e.Ended(one)
	if o := taken(t, e, a, one, wire.StatusOk); o.Own || o.Bytes != 10 {
		t.Errorf("object of a worker that is gone: %+v", o)
	}
	offered(t, e, one, 9, 10) // of one that is gone
	claimed(t, e, one, 9, 0, wire.StatusNoObject)
	if s := e.Release(a); s != wire.StatusOk {
		t.Errorf("release: %d", s)
	}
	if s := e.Release(a); s != wire.StatusNoObject {
		t.Errorf("release again: %d", s)
	}
	taken(t, e, a, other, wire.StatusNoObject)
	taken(t, e, b, other, wire.StatusOk)
	e.Clear()
	taken(t, e, b, other, wire.StatusNoObject)
	if after := files(t); after != before || e.bytes != 0 || len(e.handles) != 0 ||
		len(e.offers) != 0 {
		t.Errorf("left: %d files, %d bytes, %d handles, %d offers", after-before, e.bytes,
			len(e.handles), len(e.offers))
	}
}

func TestExportsAreBounded(t *testing.T) {
	for _, most := range []int{manyFiles, 4096, 1024, 256} {
		t.Run(strconv.Itoa(most), func(t *testing.T) { exportsAreBounded(t, most) })
	}
}

// exportsAreBounded fills the exports of a process that may have so many files.
func exportsAreBounded(t *testing.T, most int) {
	before := files(t)
	e := New(most)
	maxOffers, maxHandlesOfOne := uint32(e.bounds.offers), e.bounds.handlesOfOne
	if all := wire.MaxChannels*e.bounds.offers + e.bounds.handles; all > max(most/2,
		wire.MaxChannels+4) {
		t.Errorf("%d of %d files are for exports", all, most)
	}
	workers := []*Worker{{}, {}, {}}
	for i := range 3 * maxOffers {
		offered(t, e, workers[0], i, 1)
	}
	if n := len(e.offers); n != e.bounds.offers || workers[0].offers != n {
		t.Errorf("%d offers", n)
	}
	claimed(t, e, workers[0], 2*maxOffers-1, 0, wire.StatusNoObject) // an old one
	for _, w := range workers[:2] {
		offered(t, e, w, 1000, 1)
		for range maxHandlesOfOne {
			claimed(t, e, w, 1000, 0, wire.StatusOk)
		}
		claimed(t, e, w, 1000, 0, wire.StatusLimit)
	}
	offered(t, e, workers[2], 1, 1)
	claimed(t, e, workers[2], 1, 0, wire.StatusLimit)
	for h := uint32(1); h <= 5; h++ {
		e.Release(h)
	}
	claimed(t, e, workers[2], 1, 0, wire.StatusOk)
	claimed(t, e, workers[0], 1000, 0, wire.StatusOk)
	for _, w := range workers {
		e.Ended(w)
	}
	e.Clear()
	if after := files(t); after != before {
		t.Errorf("%d files are left", after-before)
	}
}

func TestExportedMemoryIsBounded(t *testing.T) {
	e, w := New(manyFiles), &Worker{}
	offered(t, e, w, 1, 60)
	offered(t, e, w, 2, 41)
	offered(t, e, w, 3, 40)
	offered(t, e, w, 4, ^uint64(0))
	a := claimed(t, e, w, 1, 100, wire.StatusOk)
	claimed(t, e, w, 1, 100, wire.StatusOk) // counts once
	claimed(t, e, w, 2, 100, wire.StatusLimit)
	claimed(t, e, w, 4, 100, wire.StatusLimit)
	claimed(t, e, w, 3, 100, wire.StatusOk)
	e.Release(a)
	claimed(t, e, w, 2, 100, wire.StatusLimit)
	e.Release(a + 1)
	claimed(t, e, w, 2, 100, wire.StatusOk)
	e.Clear()
	if e.bytes != 0 {
		t.Errorf("%d bytes are left", e.bytes)
	}
	e.Ended(w)
}

// TestOffersOfNonsense sends what no worker sends.
func TestOffersOfNonsense(t *testing.T) {
	before := files(t)
	e, w := New(manyFiles), &Worker{}
	memory, pool := handover.ObjectMemory, handover.ObjectPool
	for _, c := range []struct {
		object *handover.Object
		files  handover.Files
		fds    int
	}{
		{nil, handover.Files{}, 0},
		{nil, handover.Files{Object: true}, 1},
		{&handover.Object{Kind: memory}, handover.Files{}, 0},
		{&handover.Object{Kind: memory}, handover.Files{Object: true, Kick: true}, 2},
		{&handover.Object{Kind: memory}, handover.Files{Memory: 3}, 3},
		{&handover.Object{Kind: pool}, handover.Files{Object: true}, 1},
		{&handover.Object{Kind: "else"}, handover.Files{Object: true}, 1},
		{&handover.Object{}, handover.Files{}, 0},
	} {
		var fds []int
		for range c.fds {
			fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			fds = append(fds, fd)
		}
		e.Receive(w, &handover.Message{Object: c.object, Files: c.files}, fds)
		if len(e.offers) != 0 {
			t.Fatalf("%+v is an offer", c)
		}
	}
	if after := files(t); after != before {
		t.Errorf("%d files are left", after-before)
	}
}

// TestWithdrawnOffers leave no file, and those that have handles stay.
func TestWithdrawnOffers(t *testing.T) {
	before := files(t)
	e, w, other := New(manyFiles), &Worker{}, &Worker{}
	withdraw := func(w *Worker, number uint32) {
		e.Receive(w,
			&handover.Message{Kind: handover.KindWithdraw,
				Object: &handover.Object{Number: number}}, nil)
	}
	for i := range uint32(10 * maxOffers) {
		offered(t, e, w, i, 10)
		withdraw(other, i)
		withdraw(w, i)
		withdraw(w, i)
	}
	if n := files(t) - before; n != 0 || w.offers != 0 || len(e.offers) != 0 {
		t.Errorf("left: %d files, %d offers, %d in all", n, w.offers, len(e.offers))
	}
	offered(t, e, w, 1000, 10)
	h := claimed(t, e, w, 1000, 0, wire.StatusOk)
	withdraw(w, 1000)
	taken(t, e, h, other, wire.StatusOk)
	e.Release(h)
	e.Receive(w, &handover.Message{Kind: handover.KindWithdraw}, nil)
	if n := files(t) - before; n != 0 {
		t.Errorf("%d files are left", n)
	}
}
