// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

const segment = 4 << 20

// does calls a handler that must succeed, and returns the words of its answer.
func does[A any](
	t *testing.T, do func(*call.Call, A) gpubackend.Result, a A,
) []uint64 {
	t.Helper()
	c := call.New(nil)
	if result := do(&c, a); result != gpubackend.Success {
		t.Fatalf("%T: %v", a, result)
	}
	return c.Answers()
}

// newMaker has a pool of which it offers two allocations, one of them freed, both in one segment. A
// third one is nobody else's.
func newMaker(t *testing.T) (r *rig, pointers [2]command.MemPoolImportPointer) {
	t.Helper()
	r, _ = newRig(t, 1<<30)
	h := does(t, r.create, command.MemPoolCreate{HandleTypes: HandlePosixFile})[0]
	p, _ := r.findPool(h)
	var freed *allocation
	for i := range pointers {
		freed = r.take(t, p, 512, 7)
		var a command.MemPoolExportPointerAnswer
		var words command.Words
		copy(words[:],
			does(t, r.exportPointer, command.MemPoolExportPointer{Address: freed.address}))
		a.Read(&words)
		pointers[i] = command.MemPoolImportPointer{Token: a.Token, Name: a.Name, Offset: a.Offset}
	}
	r.free(t, freed, 7)
	r.take(t, p, 512, 7)
	return r, pointers
}

// newTaker has these pointers. It has freed the second one in a stream.
func newTaker(t *testing.T, pointers [2]command.MemPoolImportPointer) *rig {
	t.Helper()
	r, _ := newRig(t, 1<<30)
	h := r.newPool(0, 0)
	p, _ := r.findPool(h)
	p.imported, p.token = true, pointers[0].Token
	for i, x := range pointers {
		x.Pool = h
		at := does(t, r.importPointer, x)[0]
		if i == 1 {
			r.loose = append(r.loose,
				&allocation{address: at, context: r.context, imported: r.shares.takePointer(at)})
		}
	}
	return r
}

// saved is all that it knows, through the form in which it is written.
func (r *rig) saved(t *testing.T) (s Saved) {
	t.Helper()
	x, err := r.Save()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(x)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// again is what is made of that, for as long as the test runs.
func again(t *testing.T, s *Saved) (*rig, error) {
	t.Helper()
	r := bareRig(1 << 30)
	t.Cleanup(r.Close)
	return r, r.Restore(s, func(uint64) error { return nil })
}

// TestSharedPoolsAgain: a pool and its memory are offered under the names that they had, and mapped
// where they were. Another process can map them, too, and what was freed goes as it would have.
func TestSharedPoolsAgain(t *testing.T) {
	maker, pointers := newMaker(t)
	taker := newTaker(t, pointers)
	if err := errors.Join(maker.Lacks(), taker.Lacks()); err != nil {
		t.Fatal(err)
	}
	made, took := maker.saved(t), taker.saved(t)
	if made.Takes() || !took.Takes() || maker.Offered() != 1 || taker.Offered() != 0 {
		t.Errorf("%+v, %+v", made, took)
	}
	maker.Close()
	if err := taker.Lacks(); !errors.Is(err, offers.ErrNone) {
		t.Errorf("the maker is gone: %v", err)
	}
	taker, err := again(t, &took)
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Join(&took); !errors.Is(err, offers.ErrNone) || len(taker.loose) != 0 {
		t.Errorf("nobody offers it yet: %v", err)
	}
	if maker, err = again(t, &made); err != nil {
		t.Fatal(err)
	}
	if err := taker.Join(&took); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		r   *rig
		was Saved
	}{{maker, made}, {taker, took}} {
		if s := x.r.saved(t); len(s.Memory) != len(x.was.Memory) ||
			!reflect.DeepEqual(s.Pools, x.was.Pools) || !reflect.DeepEqual(s.Mapped, x.was.Mapped) {
			t.Errorf("it has %+v, before %+v", s, x.was)
		}
	}
	newTaker(t, pointers)
	taker.Settle() // the freed pointer goes, and the segment stays
	if offered, mapped, n := taker.Segments(); offered != 0 || mapped != 1 || n != 1 ||
		len(taker.driver.mapped) != 1 {
		t.Errorf("%d offered, %d mapped, %d pointers", offered, mapped, n)
	}
	taker.dropPointer(taker.shares.takePointer(took.Mapped[0].Pointers[0]))
	if _, mapped, _ := taker.Segments(); mapped != 0 || len(taker.driver.mapped) != 0 {
		t.Errorf("%d segments are mapped after the last pointer", mapped)
	}
	maker.Forget(maker.context)
	if maker.Offered() != 0 {
		t.Error("it is offered after all its memory has gone")
	}
}

// TestSegmentOfAnEndedContext has no pointers, and is there until it is swept.
func TestSegmentOfAnEndedContext(t *testing.T) {
	maker, pointers := newMaker(t)
	defer maker.Close()
	taker := newTaker(t, pointers)
	taker.Forget(taker.context)
	taker.objects.Remove(taker.context)
	took := taker.saved(t)
	if len(took.Mapped) != 1 || len(took.Mapped[0].Pointers) != 0 {
		t.Fatalf("%+v", took.Mapped)
	}
	taker = bareRig(1 << 30)
	taker.objects.Remove(taker.context)
	if err := taker.Join(&took); err != nil {
		t.Fatal(err)
	}
	taker.sweepSegments()
	if _, mapped, _ := taker.Segments(); mapped != 0 || len(taker.driver.mapped) != 0 {
		t.Errorf("%d segments are mapped", mapped)
	}
}

// TestShareablePoolIsSaved: a pool that is made again can be shared if it could before, and as the
// same one.
func TestShareablePoolIsSaved(t *testing.T) {
	for _, shareable := range []bool{false, true} {
		r, p := newRig(t, 1<<30)
		if shareable {
			p.shareable()
		}
		s := r.saved(t)
		next, err := again(t, &s)
		if err != nil {
			t.Fatal(err)
		}
		if got := next.pool[0].token; got != p.token || (got != 0) != shareable {
			t.Errorf("a pool that can be shared: %t; its token is %x, and then %x", shareable,
				p.token, got)
		}
	}
}

// TestExportedPoolAgain: the device process is told of it under the number that it had.
func TestExportedPoolAgain(t *testing.T) {
	maker, _ := newMaker(t)
	h := maker.Objects.Existing(object.Pool, 1)
	n := uint32(does(t, maker.export, command.MemPoolExportToShareableHandle{Pool: h})[0])
	made := maker.saved(t)
	maker.Close()
	r, err := again(t, &made)
	if err != nil {
		t.Fatal(err)
	}
	was := maker.Exports.(*fakeExports).offered
	if err := r.OfferAgain(); err != nil || len(was) != 1 ||
		!slices.Equal(r.Exports.(*fakeExports).offered, was) || r.Exports.Number() <= n {
		t.Errorf("%v; it offers %+v, before %+v", err, r.Exports.(*fakeExports).offered, was)
	}
}

// offeredMemory is the first memory that a saved maker offers.
func offeredMemory(s *Saved) *SavedMemory {
	for i := range s.Memory {
		if len(s.Memory[i].Name) > 0 {
			return &s.Memory[i]
		}
	}
	return nil
}

// TestDamagedSharedPools: what no Pools can have saved is refused.
func TestDamagedSharedPools(t *testing.T) {
	maker, pointers := newMaker(t)
	taker := newTaker(t, pointers)
	maker.Close()
	for name, change := range map[string]func(o, x *Saved){
		"a short name":   func(o, _ *Saved) { offeredMemory(o).Name = []byte{1} },
		"a long name":    func(o, _ *Saved) { offeredMemory(o).Name = make([]byte, 17) },
		"no context":     func(o, _ *Saved) { offeredMemory(o).Context++ },
		"two names":      func(o, _ *Saved) { offeredMemory(o).Name[0]++ },
		"no segment":     func(o, _ *Saved) { offeredMemory(o).Address += 9 * segment },
		"not shareable":  func(o, _ *Saved) { offeredMemory(o).Pool = 0 },
		"no such pool":   func(o, _ *Saved) { offeredMemory(o).Pool = 2 },
		"not its own":    func(o, _ *Saved) { o.Pools[1].Imported = true },
		"nobody's pool":  func(_, x *Saved) { x.Pools[1].Token = 0 },
		"its number":     func(_, x *Saved) { x.Pools[1].Number = 3 },
		"any number":     func(o, _ *Saved) { o.Pools[0].Number = 3 },
		"another's name": func(_, x *Saved) { x.Mapped[0].Name[0]++ },
		"a cut name":     func(_, x *Saved) { x.Mapped[0].Name = x.Mapped[0].Name[1:] },
		"other bytes":    func(_, x *Saved) { x.Mapped[0].Bytes++ },
		"mapped nowhere": func(_, x *Saved) { x.Mapped[0].Context++ },
		"elsewhere":      func(_, x *Saved) { x.Mapped[0].Address = 1 << 30 },
		"mapped twice":   func(_, x *Saved) { x.Mapped = append(x.Mapped, x.Mapped[0]) },
		"beyond it":      func(_, x *Saved) { x.Mapped[0].Pointers[0] += segment },
		"a pointer twice": func(_, x *Saved) {
			x.Mapped[0].Pointers = append(x.Mapped[0].Pointers, x.Mapped[0].Pointers[0])
		},
		"freed of nobody":  func(_, x *Saved) { offeredMemory(x).Name[0]++ },
		"freed, cut":       func(_, x *Saved) { offeredMemory(x).Name = []byte{1} },
		"freed beyond it":  func(_, x *Saved) { offeredMemory(x).Address += segment },
		"freed, but isn't": func(_, x *Saved) { offeredMemory(x).Free = false },
	} {
		t.Run(name, func(t *testing.T) {
			o, x := maker.saved(t), taker.saved(t)
			change(&o, &x)
			_, err := again(t, &o)
			if err == nil {
				var taking *rig
				if taking, err = again(t, &x); err == nil {
					err = taking.Join(&x)
				}
			}
			if !errors.Is(err, errSaved) && !errors.Is(err, offers.ErrNone) {
				t.Errorf("%v", err)
			}
		})
	}
}
