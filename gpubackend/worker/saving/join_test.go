// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/exports"
	"github.com/paracuda/paracuda/gpubackend/worker/offers"
	"github.com/paracuda/paracuda/gpubackend/worker/pools"
	"github.com/paracuda/paracuda/gpubackend/worker/sharing"
)

// TestJoin: a program that has memory of others has all of its own first. What may name that of
// others is made when it has joined these, which can be tried again. Until then it isn't saved.
func TestJoin(t *testing.T) {
	from := newProgram(t)
	from.sharing.s = sharing.Saved{Memory: []sharing.SavedShare{{Of: 4096, Name: []byte("a")}},
		Mapped: []sharing.SavedShare{{Of: 8192, Name: []byte("b"), Context: 1}}}
	to := newWorld(t)
	if err := to.Restore(bytes.NewReader(from.record(t)), nil, false); err != nil {
		t.Fatal(err)
	}
	own := slices.Clone(to.device.did)
	if !slices.Contains(own, "fill") || slices.Contains(own, "layout is right") ||
		to.graphs.s.Execs != nil || to.textures.s != nil ||
		!reflect.DeepEqual(to.sharing.offered, from.sharing.s) {
		t.Errorf("before it joins, the device was told %q; it offers %+v", own, to.sharing.offered)
	}
	var b bytes.Buffer
	for _, err := range []error{to.Unsavable(), to.Counted(), to.Save(&b, savedvm.Nowhere)} {
		if !errors.Is(err, errJoins) {
			t.Errorf("it is saved before it has joined: %v", err)
		}
	}
	to.sharing.gone = offers.ErrNone
	if err := to.Join(); !errors.Is(err, offers.ErrNone) || to.Counted() == nil {
		t.Errorf("nobody offers it: %v, then %v", err, to.Counted())
	}
	to.sharing.gone = nil
	for range 2 { // the second time there is nothing to do
		if err := errors.Join(to.Join(), to.Counted()); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(to.sharing.joined, from.sharing.s) ||
		!reflect.DeepEqual(to.graphs.s, from.graphs.s) ||
		!reflect.DeepEqual(to.textures.s, from.textures.s) ||
		!slices.Equal(to.device.did, append(own, "layout is right")) {
		t.Errorf("it joined %+v; the device was told %q", to.sharing.joined, to.device.did)
	}
}

// TestJoinsPools: memory of others' pools alone is waited for, too.
func TestJoinsPools(t *testing.T) {
	from := newProgram(t)
	from.pools.s.Mapped = []pools.SavedImport{{Address: 8192, Name: []byte("b")}}
	to := newWorld(t)
	if err := to.Restore(bytes.NewReader(from.record(t)), nil, false); err != nil {
		t.Fatal(err)
	}
	if err := to.Counted(); !errors.Is(err, errJoins) || to.pools.joined.Mapped != nil {
		t.Errorf("before it joins: %v, it has %+v", err, to.pools.joined)
	}
	if err := to.Join(); err != nil || !reflect.DeepEqual(to.pools.joined, from.pools.s) {
		t.Errorf("%v; it joined %+v", err, to.pools.joined)
	}
}

// TestJoinsImports: what a program hasn't named yet is waited for, too, and goes along.
func TestJoinsImports(t *testing.T) {
	from := newProgram(t)
	from.imports.s = []exports.Saved{{Import: 3, Token: 7}}
	to := newWorld(t)
	if err := to.Restore(bytes.NewReader(from.record(t)), nil, false); err != nil {
		t.Fatal(err)
	}
	if err := to.Counted(); !errors.Is(err, errJoins) || to.imports.joined != nil {
		t.Errorf("before it joins: %v, it has %+v", err, to.imports.joined)
	}
	if err := to.Join(); err != nil || !reflect.DeepEqual(to.imports.joined, from.imports.s) {
		t.Errorf("%v; it joined %+v", err, to.imports.joined)
	}
}

// TestLacks: what others had offered, and don't any more, is a reason that the program is told
// while it runs.
func TestLacks(t *testing.T) {
	for _, change := range []func(*world){
		func(w *world) { w.sharing.lacks = offers.ErrNone },
		func(w *world) { w.pools.lacks = offers.ErrNone },
		func(w *world) { w.imports.lacks = offers.ErrNone },
	} {
		w := newProgram(t)
		change(w)
		for _, err := range []error{w.Found(), w.Unsavable()} {
			if !errors.Is(err, offers.ErrNone) {
				t.Errorf("%v, want %v", err, offers.ErrNone)
			}
		}
	}
	w := newProgram(t)
	w.sharing.s.Opened = make([]sharing.SavedShare, 3)
	if _, err := w.executed(); err != nil || w.history.others != 3 {
		t.Errorf("%d objects are others', want those that others share, too: %v",
			w.history.others, err)
	}
}
