// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"errors"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// nothing is what is offered where nobody offers anything.
func nothing(uint64) (bytes uint64, fd int, err error) { return 0, -1, offers.ErrNone }

// offering is what is offered where others offer memory of a size under the token 7.
func offering(bytes uint64) func(token uint64) (uint64, int, error) {
	return func(token uint64) (uint64, int, error) {
		if token != 7 {
			return nothing(token)
		}
		fd, err := unix.MemfdCreate("object", unix.MFD_CLOEXEC)
		return bytes, fd, err
	}
}

// importer is a process that was handed memory of its own, of another process, and a pool.
func importer(t *testing.T) *Exports {
	t.Helper()
	x := newExports(&fakeSender{})
	for _, o := range []handover.Object{
		{Kind: handover.ObjectMemory, Number: 4, Own: true, ID: 1},
		{Kind: handover.ObjectMemory, Number: 5, ID: 2},
		{Kind: handover.ObjectPool, Number: 6, ID: 3},
		{Kind: handover.ObjectPool, GPU: 99}, // which it doesn't see
	} {
		if o.Token, o.Bytes, o.Import = 7, 4096, o.Number+10; o.GPU == 0 {
			o.GPU = 12
		}
		m, fds := &handover.Message{Kind: handover.KindImport, Object: &o}, []int(nil)
		if o.Kind == handover.ObjectMemory {
			_, fd, _ := offering(0)(7)
			m.Files.Object, fds = true, []int{fd}
		}
		if a := x.Accept(m, fds); a.Error != "" {
			t.Fatal(a.Error)
		}
	}
	return x
}

// TestUnnamedImportsGoAlong: what a program hasn't named can be named where it goes on, and is what
// it was. The device process there knows it by other numbers.
func TestUnnamedImportsGoAlong(t *testing.T) {
	from, to := importer(t), newExports(&fakeSender{})
	defer from.Close()
	defer to.Close()
	list := from.Save()
	want := []Saved{
		{Import: 14, Kind: handover.ObjectMemory, Device: 1, Bytes: 4096, Token: 7, Own: 4},
		{Import: 15, Kind: handover.ObjectMemory, Device: 1, Bytes: 4096, Token: 7},
		{Import: 16, Kind: handover.ObjectPool, Device: 1, Bytes: 4096, Token: 7},
	}
	if !reflect.DeepEqual(list, want) {
		t.Fatalf("saved %+v", list)
	}
	to.receive = offering(4096)
	if err := to.Join(list); err != nil || !reflect.DeepEqual(to.Save(), want) {
		t.Fatalf("%v: there are %+v", err, to.Save())
	}
	for _, number := range []uint32{14, 17} { // one that was owed, too, and one that wasn't
		o := handover.Object{Kind: handover.ObjectPool, GPU: 11, Import: number, Again: true}
		to.Accept(&handover.Message{Kind: handover.KindImport, Object: &o}, nil)
	}
	for _, x := range list {
		i, result := to.Take(uint64(x.Import), x.Kind)
		if result != gpubackend.Success || i.Device != 1 || i.Bytes != 4096 || i.Token != 7 ||
			i.ID != 0 || i.Own != (x.Own == 4) || i.Number != x.Own ||
			(i.File >= 0) != (x.Kind == handover.ObjectMemory) {
			t.Errorf("import %d: %v, %+v", x.Import, result, i)
		}
		i.Close()
	}
	if _, result := to.Take(17, handover.ObjectPool); result != gpubackend.Success {
		t.Errorf("what it was owed: %v", result)
	}
}

// TestNobodyOffersAnImport: that is a reason not to save a program. One that was saved before goes
// on, and is told so when it names the memory.
func TestNobodyOffersAnImport(t *testing.T) {
	from, to := importer(t), newExports(&fakeSender{})
	defer from.Close()
	defer to.Close()
	if err := from.Lacks(); !errors.Is(err, offers.ErrNone) {
		t.Errorf("nobody offers it: %v", err)
	}
	from.receive = offering(8192)
	if err := from.Lacks(); !errors.Is(err, errSaved) {
		t.Errorf("it is another memory: %v", err)
	}
	from.receive = offering(4096)
	if err := from.Lacks(); err != nil {
		t.Error(err)
	}
	if err := to.Join(from.Save()); err != nil || to.Waiting() != 1 {
		t.Errorf("%v: %d objects wait, want the pool", err, to.Waiting())
	}
	if _, result := to.Take(14, handover.ObjectMemory); result != gpubackend.InvalidValue {
		t.Errorf("it is there: %v", result)
	}
}

// TestStrangeSavedImports: no process can have saved these.
func TestStrangeSavedImports(t *testing.T) {
	for name, list := range map[string][]Saved{
		"too many":      make([]Saved, MaxWaiting+1),
		"another GPU's": {{Kind: handover.ObjectPool, Token: 7, Device: 2}},
		"no kind":       {{Token: 7}},
		"no token":      {{Kind: handover.ObjectPool}},
		"other memory":  {{Kind: handover.ObjectMemory, Token: 7, Bytes: 1}},
	} {
		x := newExports(&fakeSender{})
		x.receive = offering(4096)
		if err := x.Join(list); !errors.Is(err, errSaved) || x.Waiting() != 0 {
			t.Errorf("%s: %v, %d wait", name, err, x.Waiting())
		}
	}
}

// TestNumbersThatComeAgain: a device process that knows nothing of an earlier one counts anew. What
// has the same number, and was never named, makes room.
func TestNumbersThatComeAgain(t *testing.T) {
	x := importer(t)
	defer x.Close()
	file := x.waiting[15].File
	o := handover.Object{Kind: handover.ObjectPool, GPU: 11, Token: 8, Import: 15}
	x.Accept(&handover.Message{Kind: handover.KindImport, Object: &o}, nil)
	if i, result := x.Take(15, handover.ObjectPool); result != gpubackend.Success || i.Token != 8 ||
		open(file) {
		t.Errorf("%v, %+v; the file of the first one is open: %t", result, i, open(file))
	}
}
