// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
)

// newProgram has memory with a handle alone, with a handle and two mappings, and with a mapping
// alone. It returns the handles.
func newProgram(t *testing.T) (r *rig, alone, both uint64) {
	t.Helper()
	r = newRig()
	r.do(t, 0, gpubackend.OpMemAddressReserve, ReserveBase, 8*page)
	r.do(t, 0, gpubackend.OpMemAddressReserve, ReserveBase+16*page, page)
	gone := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	alone = r.do(t, 0, gpubackend.OpMemCreate, 3*page, 1, 1)
	released := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	both = r.do(t, 0, gpubackend.OpMemCreate, 2*page, 0, 1)
	r.do(t, 0, gpubackend.OpMemRelease, gone)
	r.do(t, 0, gpubackend.OpMemMap, ReserveBase+4*page, 2*page, both)
	r.do(t, 0, gpubackend.OpMemMap, ReserveBase, 2*page, both)
	r.do(t, 0, gpubackend.OpMemMap, ReserveBase+2*page, page, released)
	r.do(t, 0, gpubackend.OpMemSetAccess, ReserveBase, 3*page, 0, gpubackend.AccessReadWrite)
	r.do(t, 0, gpubackend.OpMemSetAccess, ReserveBase, 2*page, 1, gpubackend.AccessRead)
	r.do(t, 0, gpubackend.OpMemRelease, released)
	return r, alone, both
}

// restored is what a Memory becomes that is made from saved memory and a table of handles.
func restored(t *testing.T, s *Saved, table []byte) (*rig, error) {
	t.Helper()
	r := newRig()
	objects, err := object.Restore(&r.objects, bytes.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Restore(s, func(handle uint64) error { return objects.Next(handle) }); err != nil {
		r.Close()
		return nil, err
	}
	return r, objects.Done()
}

func tableOf(t *testing.T, r *rig) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.objects.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestMadeAgain: another Memory has the same reservations, memory, handles, mappings and access,
// and gives back what it has as the first one would.
func TestMadeAgain(t *testing.T) {
	from, alone, both := newProgram(t)
	s := from.Save()
	if len(s.Created) != 3 || len(s.Reserved) != 2 || from.Handles() != 2 {
		t.Fatalf("%+v, %d handles", s, from.Handles())
	}
	r, err := restored(t, &s, tableOf(t, from))
	if err != nil {
		t.Fatal(err)
	}
	if again := r.Save(); !reflect.DeepEqual(again, s) {
		t.Errorf("it has %+v, before %+v", again, s)
	}
	want := []gpubackend.CreatedMemory{{Memory: 2, Bytes: 3 * page, Device: 1, Compression: 1},
		{Memory: 3, Bytes: page}, {Memory: 4, Bytes: 2 * page, Compression: 1}}
	if !reflect.DeepEqual(r.driver.taken, want) {
		t.Errorf("the device made %+v, want %+v", r.driver.taken, want)
	}
	if r.Places.Used() != from.Places.Used() || len(r.driver.protected) != 3 {
		t.Errorf("%d places are used, before %d; access to %x", r.Places.Used(),
			from.Places.Used(), r.driver.protected)
	}
	r.do(t, 0, gpubackend.OpMemRelease, alone)
	r.do(t, 0, gpubackend.OpMemRelease, both)
	if r.driver.released != 1 {
		t.Errorf("%d memories are released, want the one that isn't mapped", r.driver.released)
	}
	for _, x := range [][2]uint64{{0, 3 * page}, {4 * page, 2 * page}} {
		if result := r.unmap(ReserveBase+x[0], x[1]); result != gpubackend.Success {
			t.Error(result)
		}
	}
	r.do(t, 0, gpubackend.OpMemAddressFree, ReserveBase, 8*page)
	r.do(t, 0, gpubackend.OpMemAddressFree, ReserveBase+16*page, page)
	if r.driver.released != 3 || r.Places.Used() != 0 {
		t.Errorf("%d released, %d places are used", r.driver.released, r.Places.Used())
	}
}

// TestStrangeMemory that no Memory can have saved is refused.
func TestStrangeMemory(t *testing.T) {
	from, _, _ := newProgram(t)
	table := tableOf(t, from)
	for name, change := range map[string]func(s *Saved){
		"no bytes":            func(s *Saved) { s.Created[0].Bytes = 0 },
		"some bytes more":     func(s *Saved) { s.Created[0].Bytes++ },
		"unknown compression": func(s *Saved) { s.Created[0].Compression = 2 },
		"nobody's":            func(s *Saved) { s.Created[0].Handles = nil },
		"of nobody's handle":  func(s *Saved) { s.Created[0].Handles[0]++ },
		"twice":               func(s *Saved) { s.Created = append(s.Created, s.Created[0]) },
		"one token twice":     func(s *Saved) { s.Created[0].Token, s.Created[1].Token = 7, 7 },
		"a number alone":      func(s *Saved) { s.Created[0].Number = 7 },
		"one number twice": func(s *Saved) {
			for i := range 2 {
				s.Created[i].Token, s.Created[i].Number = uint64(7+i), 7
			}
		},
		"mapped nowhere": func(s *Saved) {
			s.Created[1].Mappings[0].Base = ReserveBase + 8*page
		},
		"mapped elsewhere":    func(s *Saved) { s.Created[1].Mappings[0].Base = 1 << 20 },
		"mapped over another": func(s *Saved) { s.Created[1].Mappings[0].Base -= page },
		"mapped at odd bytes": func(s *Saved) { s.Created[1].Mappings[0].Base++ },
		"larger than its place": func(s *Saved) {
			s.Created[1].Bytes = 3 * page
		},
		"reserved twice": func(s *Saved) { s.Reserved = append(s.Reserved, s.Reserved[0]) },
		"reserved elsewhere": func(s *Saved) {
			s.Reserved = append(s.Reserved, addresses.Of(ReserveEnd, page))
		},
		"reserved without end": func(s *Saved) {
			for i := range uint64(200) {
				s.Reserved = append(s.Reserved, addresses.Of(ReserveBase+(20+i)*page, page))
			}
		},
		"a device too many": func(s *Saved) {
			s.Created[1].Mappings[0].Access[0].Device = ledger.GPUs
		},
		"unknown access": func(s *Saved) { s.Created[1].Mappings[0].Access[0].Access = 2 },
	} {
		s := from.Save()
		change(&s)
		if _, err := restored(t, &s, table); err == nil {
			t.Errorf("%s: it is made", name)
		}
	}
	s := from.Save()
	r := newRig()
	r.driver.full = true
	if err := r.Restore(&s, func(uint64) error { return nil }); err == nil {
		t.Error("it is made where the device has no room")
	}
}

// TestWhatOthersMayHave: memory that was exported, for as long as it is there.
func TestWhatOthersMayHave(t *testing.T) {
	r, alone, both := newProgram(t)
	defer r.Close()
	r.do(t, 0, gpubackend.OpMemExportToShareableHandle, alone)
	for native, shared := range []bool{false, false, true, false, false} {
		if r.Shares(uint64(native), 1) != shared {
			t.Errorf("memory %d: shared %t", native, !shared)
		}
	}
	if !r.Shares(0, page) || r.Shares(3, page) {
		t.Error("ranges")
	}
	r.do(t, 0, gpubackend.OpMemRelease, both)
	r.do(t, 0, gpubackend.OpMemRelease, alone)
	if r.Shares(0, page) {
		t.Error("memory is shared that is gone")
	}
}

// TestTakenAgain: a process that has memory of another one has it again, by all its handles and
// where it was mapped, as soon as that one has it.
func TestTakenAgain(t *testing.T) {
	maker, number, _ := newProgram(t)
	defer maker.Close()
	maker.do(t, 0, gpubackend.OpMemExportToShareableHandle, number)
	maker.do(t, 0, gpubackend.OpMemExportToShareableHandle, number)
	o := maker.exports.offered[1]
	if o.Token == 0 || o.Bytes != 3*page {
		t.Fatalf("offered %+v", o)
	}
	taker := newRig()
	o.ID = 5
	taker.exports.next.Object = o
	first := taker.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 2)
	second := taker.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 2)
	taker.do(t, 0, gpubackend.OpMemAddressReserve, ReserveBase+32*page, 8*page)
	taker.do(t, 0, gpubackend.OpMemMap, ReserveBase+33*page, 3*page, first)
	if err := taker.Lacks(); err != nil {
		t.Fatal(err)
	}
	made, took := maker.Save(), taker.Save()
	maker.Close()
	if err := taker.Lacks(); !errors.Is(err, offers.ErrNone) {
		t.Errorf("the other one is gone: %v", err)
	}
	if made.Takes() || !took.Takes() || taker.Handles() != 2 {
		t.Errorf("%+v, %+v", made, took)
	}
	again, next := newRig(), func(uint64) error { return nil }
	if err := again.Restore(&took, next); err != nil {
		t.Fatal(err)
	}
	if err := again.Join(&took, next); !errors.Is(err, offers.ErrNone) {
		t.Errorf("nobody offers it yet: %v", err)
	}
	back, err := restored(t, &made, tableOf(t, maker))
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	larger := took
	larger.Created = slices.Clone(took.Created)
	larger.Created[0].Bytes += page
	if err := again.Join(&larger, next); !errors.Is(err, errSaved) {
		t.Errorf("it has fewer bytes: %v", err)
	}
	if err := again.Join(&took, next); err != nil {
		t.Fatal(err)
	}
	x := again.Save()
	x.Created[0].Native = took.Created[0].Native // that of another process
	if !reflect.DeepEqual(x, took) || again.memory[first] != again.memory[second] {
		t.Errorf("it has %+v, before %+v", x, took)
	}
	o.ID++ // the device process knows it as another one by now
	again.exports.next.Object = o
	third := again.do(t, 0, gpubackend.OpMemImportFromShareableHandle, 2)
	if again.memory[third] != again.memory[first] || back.Save().Created[0].Token != o.Token {
		t.Error("it isn't recognised any more")
	}
	known := len(back.exports.offered)
	if err := back.OfferAgain(); err != nil || len(back.exports.offered) != known+1 ||
		back.exports.offered[known] != maker.exports.offered[0] {
		t.Errorf("%v; it offers %+v to the device process, before %+v", err, back.exports.offered,
			maker.exports.offered[0])
	}
	if n := back.exports.Number(); n <= maker.exports.offered[0].Number {
		t.Errorf("number %d is given twice", n)
	}
	took.Created[0].Token = 0
	if err := newRig().Join(&took, next); err == nil {
		t.Error("memory of nobody is taken")
	}
}

// TestOffersAreBounded: each is a socket.
func TestOffersAreBounded(t *testing.T) {
	r := newRig()
	defer r.Close()
	r.exchange.offered = maxOffered
	m := r.do(t, 0, gpubackend.OpMemCreate, page, 0, 0)
	r.do(t, gpubackend.OutOfMemory, gpubackend.OpMemExportToShareableHandle, m)
}
