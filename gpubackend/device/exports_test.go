// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
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
func offered(t *testing.T, e *exports, w *workerProcess, number uint32, bytes uint64) {
	t.Helper()
	fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	o := handover.Object{Kind: handover.ObjectMemory, Number: number, Bytes: bytes, ID: 99,
		Own: true}
	e.receive(w, &handover.Message{Object: &o, Files: handover.Files{Object: true}}, []int{fd})
}

func claimed(
	t *testing.T, e *exports, w *workerProcess, number uint32, limit uint64, want uint32,
) uint32 {
	t.Helper()
	handle, status := e.claim(w, number, limit)
	if status != want {
		t.Fatalf("claim of %d: status %d, want %d", number, status, want)
	}
	return handle
}

func taken(
	t *testing.T, e *exports, handle uint32, by *workerProcess, want uint32,
) handover.Object {
	t.Helper()
	o, fd, status := e.take(handle, by)
	closeFiles([]int{fd})
	if status != want || (fd >= 0) != (want == wire.StatusOk) {
		t.Fatalf("handle %d: status %d, file %d, want status %d", handle, status, fd, want)
	}
	return o
}

func TestHandlesAreLookedUp(t *testing.T) {
	before := files(t)
	e, one, other := newExports(manyFiles), &workerProcess{}, &workerProcess{}
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
	e.ended(one)
	if o := taken(t, e, a, one, wire.StatusOk); o.Own || o.Bytes != 10 {
		t.Errorf("object of a worker that is gone: %+v", o)
	}
	offered(t, e, one, 9, 10) // of one that is gone
	claimed(t, e, one, 9, 0, wire.StatusNoObject)
	if s := e.release(a); s != wire.StatusOk {
		t.Errorf("release: %d", s)
	}
	if s := e.release(a); s != wire.StatusNoObject {
		t.Errorf("release again: %d", s)
	}
	taken(t, e, a, other, wire.StatusNoObject)
	taken(t, e, b, other, wire.StatusOk)
	e.clear()
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
	e := newExports(most)
	maxOffers, maxHandlesOfOne := uint32(e.bounds.offers), e.bounds.handlesOfOne
	if all := wire.MaxChannels*e.bounds.offers + e.bounds.handles; all > max(most/2,
		wire.MaxChannels+4) {
		t.Errorf("%d of %d files are for exports", all, most)
	}
	workers := []*workerProcess{{}, {}, {}}
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
		e.release(h)
	}
	claimed(t, e, workers[2], 1, 0, wire.StatusOk)
	claimed(t, e, workers[0], 1000, 0, wire.StatusOk)
	for _, w := range workers {
		e.ended(w)
	}
	e.clear()
	if after := files(t); after != before {
		t.Errorf("%d files are left", after-before)
	}
}

func TestExportedMemoryIsBounded(t *testing.T) {
	e, w := newExports(manyFiles), &workerProcess{}
	offered(t, e, w, 1, 60)
	offered(t, e, w, 2, 41)
	offered(t, e, w, 3, 40)
	offered(t, e, w, 4, ^uint64(0))
	a := claimed(t, e, w, 1, 100, wire.StatusOk)
	claimed(t, e, w, 1, 100, wire.StatusOk) // counts once
	claimed(t, e, w, 2, 100, wire.StatusLimit)
	claimed(t, e, w, 4, 100, wire.StatusLimit)
	claimed(t, e, w, 3, 100, wire.StatusOk)
	e.release(a)
	claimed(t, e, w, 2, 100, wire.StatusLimit)
	e.release(a + 1)
	claimed(t, e, w, 2, 100, wire.StatusOk)
	e.clear()
	if e.bytes != 0 {
		t.Errorf("%d bytes are left", e.bytes)
	}
}

// TestOffersOfNonsense sends what no worker sends.
func TestOffersOfNonsense(t *testing.T) {
	before := files(t)
	e, w := newExports(manyFiles), &workerProcess{}
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
		e.receive(w, &handover.Message{Object: c.object, Files: c.files}, fds)
		if len(e.offers) != 0 {
			t.Fatalf("%+v is an offer", c)
		}
	}
	if after := files(t); after != before {
		t.Errorf("%d files are left", after-before)
	}
}

// word is a word of the last answer.
func (v *vm) word(i int) uint64 {
	var s wire.Slot
	s.Decode(v.guest.Read(v.arena+wire.Slots, wire.SlotBytes))
	return s.Word[i]
}

func (v *vm) mustCall(channel int, op gpubackend.Op, seq uint32, words ...uint64) uint64 {
	v.t.Helper()
	if r, err := v.call(channel, op, seq, words...); err != nil || r != gpubackend.Success {
		v.t.Fatalf("%s: %d, %v", op.Name(), r, err)
	}
	return v.word(0)
}

func (v *vm) status(want uint32, r wire.ControlRequest) uint32 {
	v.t.Helper()
	a := v.ask(r)
	if a.Status != want {
		v.t.Fatalf("%+v: status %d, want %d", r, a.Status, want)
	}
	return a.Number
}

// TestMemoryOutlivesItsProcess exports memory of one process and imports it in the next, with real
// workers.
func TestMemoryOutlivesItsProcess(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: 1})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 0, Number: 1})
	v.status(wire.StatusBadRequest,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 77, Number: 1})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlRelease, Channel: 77, Number: 1})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 4<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: n + 1})
	handle := v.status(wire.StatusOk,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 0, Number: n})
	v.closeChannel(0)

	v.program(1)
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlExport, Channel: 1, Number: n})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle + 1})
	number := v.status(wire.StatusOk,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
	if r, err := v.call(1, gpubackend.OpMemImportFromShareableHandle, 2,
		uint64(number)+1); err != nil || r != gpubackend.InvalidValue {
		t.Errorf("import of nothing: %d, %v", r, err)
	}
	same := v.mustCall(1, gpubackend.OpMemImportFromShareableHandle, 3, uint64(number))
	if v.word(1) != 4<<20 || v.word(2) != 0 {
		t.Errorf("memory of %d bytes on device %d", v.word(1), v.word(2))
	}
	if r, err := v.call(1, gpubackend.OpMemImportFromShareableHandle, 4,
		uint64(number)); err != nil || r != gpubackend.InvalidValue {
		t.Errorf("import twice: %d, %v", r, err)
	}
	v.mustCall(1, gpubackend.OpMemRelease, 5, same)
	v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
}

// TestImportsThatNobodyTakes has more handed over than a process asks for.
func TestImportsThatNobodyTakes(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 2<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	handle := v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Number: n})
	ok := 0
	for range 1000 {
		a := v.ask(wire.ControlRequest{Type: wire.ControlImport, Number: handle})
		if a.Status == wire.StatusLimit {
			break
		}
		if a.Status != wire.StatusOk {
			t.Fatalf("status %d", a.Status)
		}
		ok++
	}
	if ok == 0 || ok == 1000 {
		t.Errorf("%d imports were handed over", ok)
	}
	v.mustCall(0, gpubackend.OpMemRelease, 4, m) // the worker lives
}

// TestWorkerDoesNotImport has workers that break off, or say nothing, when they are to import.
func TestWorkerDoesNotImport(t *testing.T) {
	give := func(s *stub) {
		fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
		if err != nil {
			return
		}
		defer unix.Close(fd)
		o := handover.Object{Kind: handover.ObjectMemory, Number: 5, Bytes: 2 << 20}
		_ = s.conn.Send(&handover.Message{Kind: handover.KindOffer, Object: &o,
			Files: handover.Files{Object: true}}, []int{fd})
	}
	for name, rest := range map[string]func(*stub){
		"gone":   func(s *stub) { _, _ = s.receive() },
		"silent": func(s *stub) { <-s.killed },
	} {
		t.Run(name, func(t *testing.T) {
			script := func(s *stub) {
				if _, err := s.receive(); err == nil {
					give(s)
					_ = s.conn.Send(&handover.Message{Kind: handover.KindReady}, nil)
					rest(s)
				}
			}
			v := greetedVM(t, &stubs{script: script}, Timeouts{Start: time.Second})
			v.open(0)
			handle := v.status(wire.StatusOk,
				wire.ControlRequest{Type: wire.ControlExport, Number: 5})
			v.status(wire.StatusNoWorker,
				wire.ControlRequest{Type: wire.ControlImport, Number: handle})
			v.closeChannel(0)
			v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
		})
	}
}

// TestHandlesOfAnEarlierDriver: a pause keeps handles; a driver that begins anew has no part of
// what the one before had.
func TestHandlesOfAnEarlierDriver(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{})
	v.program(0)
	m := v.mustCall(0, gpubackend.OpMemCreate, 2, 2<<20, 0, 0)
	n := uint32(v.mustCall(0, gpubackend.OpMemExportToShareableHandle, 3, m))
	handle := v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlExport, Number: n})
	v.front.Stop(v.queues...)
	v.front.Start(v.queues...)
	v.hello() // the same driver's, once more
	v.status(wire.StatusOk, wire.ControlRequest{Type: wire.ControlImport, Number: handle})
	v.front.Stop(v.queues...)
	for i := range v.queues {
		v.queues[i] = vhostusertest.NewQueue(t, v.guest, i, queueSize)
	}
	v.front.Start(v.queues...)
	v.hello()
	v.program(1)
	v.status(wire.StatusNoObject,
		wire.ControlRequest{Type: wire.ControlImport, Channel: 1, Number: handle})
	v.status(wire.StatusNoObject, wire.ControlRequest{Type: wire.ControlRelease, Number: handle})
	v.dev.exports.mu.Lock()
	defer v.dev.exports.mu.Unlock()
	if len(v.dev.exports.handles) != 0 || v.dev.exports.bytes != 0 {
		t.Errorf("%d handles are left, %d bytes", len(v.dev.exports.handles), v.dev.exports.bytes)
	}
}

// TestWithdrawnOffers leave no file, and those that have handles stay.
func TestWithdrawnOffers(t *testing.T) {
	before := files(t)
	e, w, other := newExports(manyFiles), &workerProcess{}, &workerProcess{}
	withdraw := func(w *workerProcess, number uint32) {
		e.receive(w,
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
	e.release(h)
	e.receive(w, &handover.Message{Kind: handover.KindWithdraw}, nil)
	if n := files(t) - before; n != 0 {
		t.Errorf("%d files are left", n)
	}
}
