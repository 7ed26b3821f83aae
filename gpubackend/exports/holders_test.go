// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// offeredAs has a worker offer memory that others recognise.
func offeredAs(t *testing.T, e *Exports, w *Worker, number uint32, bytes, token uint64) {
	t.Helper()
	fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	o := handover.Object{Kind: handover.ObjectMemory, Number: number, Bytes: bytes, Token: token}
	e.Receive(w, &handover.Message{Object: &o, Files: handover.Files{Object: true}}, []int{fd})
}

func withdrawn(e *Exports, w *Worker, number uint32) {
	e.Receive(w, &handover.Message{Kind: handover.KindWithdraw,
		Object: &handover.Object{Kind: handover.ObjectMemory, Number: number}}, nil)
}

// TestPassedOn: what a program has imported, and exported again, is nobody's when that ends or
// releases it, unless another program has exported the same memory and still has it.
func TestPassedOn(t *testing.T) {
	const token, maker, importer = 55, channel, channel + 1
	for name, test := range map[string]struct {
		before func(e *Exports, maker, importer *Worker) // its import ends
		handle bool                                      // one of the maker's is still there
		lone   int                                       // of the importer's handles
	}{
		"without a handle": {},
		"with a handle":    {handle: true},
		"the maker ended":  {before: func(e *Exports, m, _ *Worker) { e.Ended(m) }, lone: 1},
		"the maker has none": {before: func(e *Exports, m, _ *Worker) { withdrawn(e, m, 7) },
			lone: 1},
		"the maker is saved": {before: func(e *Exports, m, _ *Worker) { e.Leave(m) }, lone: 1},
		"released": {before: func(e *Exports, _, i *Worker) { withdrawn(e, i, 9) },
			handle: true},
		"the maker has another": {before: func(e *Exports, m, _ *Worker) {
			withdrawn(e, m, 7)
			offeredAs(t, e, m, 8, 20, token)
		}, lone: 1},
	} {
		t.Run(name, func(t *testing.T) {
			files0 := files(t)
			e, m, i := New(manyFiles), &Worker{}, &Worker{}
			e.Serves(m, maker)
			e.Serves(i, importer)
			offeredAs(t, e, m, 7, 10, token)
			first := claimed(t, e, m, 7, 0, wire.StatusOk)
			taken(t, e, first, i, wire.StatusOk)
			offeredAs(t, e, i, 9, 10, token)
			again := claimed(t, e, i, 9, 0, wire.StatusOk)
			if !test.handle {
				e.Release(first)
			}
			if test.before != nil {
				test.before(e, m, i)
			}
			e.Ended(i)
			if n := e.Lone(); n != test.lone {
				t.Fatalf("%d handles are nobody's, want %d", n, test.lone)
			}
			if handles, bytes := e.Held(); bytes != 10 || handles != len(e.handles) {
				t.Errorf("%d handles hold %d bytes", handles, bytes)
			}
			if test.lone == 0 {
				m = mustGoOn(t, e, m, again)
			}
			e.Clear()
			e.Ended(m)
			if n := files(t); n != files0 || len(e.all()) != 0 || len(e.holders) != 0 {
				t.Errorf("left: %d files, %d objects, %d are had", n-files0, len(e.all()),
					len(e.holders))
			}
		})
	}
}

// mustGoOn: the maker is saved, and goes on with what the handle names, twice.
func mustGoOn(t *testing.T, e *Exports, m *Worker, handle uint32) (last *Worker) {
	t.Helper()
	for range 2 {
		if o := taken(t, e, handle, m, wire.StatusOk); !o.Own || o.Number != 7 {
			t.Errorf("it is %+v", o)
		}
		e.Leave(m)
		e.Ended(m)
		taken(t, e, handle, m, wire.StatusNoObject)
		m = &Worker{}
		e.Begins(m, channel)
		offeredAs(t, e, m, 7, 10, 55)
		e.GoesOn(m)
	}
	return m
}
