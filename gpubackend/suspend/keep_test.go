// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// keeping is a VM whose workers may keep so many bytes.
func keeping(t *testing.T, most uint64, workers ...*fake) *fakeVM {
	v := newVM(t, workers...)
	v.most = 0
	v.Keep = func() uint64 { return most }
	return v
}

func (v *fakeVM) mustKeep(kept uint64) {
	v.t.Helper()
	if s := v.Status(); s.Kept != kept {
		v.t.Fatalf("%d bytes are kept, want %d", s.Kept, kept)
	}
}

// TestKept: what workers keep counts while their memory is in. They are asked for no more than the
// bound, and those that keep something go on doing so.
func TestKept(t *testing.T) {
	a, b := &fake{name: "a", bytes: 6}, &fake{name: "b", bytes: 4}
	v := keeping(t, 9, a, b)
	m := v.must(v.Suspend, "", Suspended)
	if v.mustKeep(0); m.Unchanged != 0 || a.keeps == b.keeps {
		t.Fatalf("%+v; a keeps: %t, b: %t", m, a.keeps, b.keeps)
	}
	v.must(v.Resume, "", Running)
	first, rest := a, b
	if b.keeps {
		first, rest = b, a
	}
	for range 20 { // a map has another order each time
		v.mustKeep(first.bytes)
		if m := v.must(v.Suspend, "", Suspended); m.Unchanged != first.bytes/2 || m.Bytes != 10 {
			t.Fatalf("%+v", m)
		}
		if v.must(v.Resume, "", Running); !first.keeps || rest.keeps {
			t.Fatal("another worker keeps what it has")
		}
	}
	v.Forget(first)
	v.mustKeep(0)
}

// TestKeptCounts: the host needs room only for what it hasn't given yet.
func TestKeptCounts(t *testing.T) {
	a := &fake{name: "a", bytes: 6}
	v := keeping(t, 100, a)
	v.must(v.Suspend, "", Suspended)
	v.must(v.Resume, "", Running)
	a.bytes, v.room = 8, 1
	v.must(v.Suspend, "it is 2 bytes, and the host has 1", Running)
	v.room = 2
	v.must(v.Suspend, "", Suspended)
	v.most = 7 // what is kept counts for suspend-memory
	v.room = 1 << 30
	v.must(v.Resume, "", Running)
	v.must(v.Suspend, "suspend-memory=7", Running)
}

// TestGivenUp: what is kept beyond the bound is given up when that is lowered. If
// the host has less free memory than what is kept, all of it is given up.
func TestGivenUp(t *testing.T) {
	a, b := &fake{name: "a", bytes: 6}, &fake{name: "b", bytes: 4}
	most := uint64(10)
	v := keeping(t, 0, a, b)
	v.Keep = func() uint64 { return most }
	both := func() {
		t.Helper()
		most = 10
		v.must(v.Suspend, "", Suspended)
		v.must(v.Resume, "", Running)
		v.mustKeep(10)
		v.did()
	}
	both()
	v.Trim()
	v.mustKeep(10)
	most = 9
	v.Trim()
	if s := v.Status(); s.Kept == 0 || s.Kept > most || a.keeps == b.keeps {
		t.Errorf("%+v; a keeps: %t, b: %t", s, a.keeps, b.keeps)
	}
	both()
	most = 0
	v.Trim()
	v.mustKeep(0)
	if did := v.did(); !slices.Equal(did, []string{"forget", "forget"}) {
		t.Errorf("%q", did)
	}
	both()
	v.must(v.Suspend, "", Suspended)
	v.room = 9
	v.must(v.Resume, "", Running)
	v.mustKeep(0)
	v.room = 1 << 30
	both()
	v.must(v.Suspend, "", Suspended)
	v.room = 0 // the host can't say
	v.must(v.Resume, "", Running)
	v.mustKeep(0)
}

// TestKeptByLiars: a worker that says that it keeps something without being allowed, or that more
// than everything was unchanged, makes no difference; nor does one that fails or is gone.
func TestKeptByLiars(t *testing.T) {
	a := &fake{name: "a", bytes: 6, lies: true}
	v := keeping(t, 5, a)
	if m := v.must(v.Suspend, "", Suspended); m.Unchanged != 6 || a.keeps {
		t.Errorf("%+v", m)
	}
	v.must(v.Resume, "", Running)
	v.mustKeep(0)
	for _, fail := range []error{errors.New("no"), ErrEnded} {
		b := &fake{name: "b", bytes: 6, fails: map[string]error{"out": fail}}
		v := keeping(t, 50, b)
		_, _ = v.Suspend(silent)
		if n := sum(v.kept); n != 0 {
			t.Errorf("%v: %d bytes are kept", fail, n)
		}
	}
	c := &fake{name: "c", bytes: math.MaxUint64, ended: true}
	v = keeping(t, math.MaxUint64, c)
	v.room = math.MaxUint64
	v.must(v.Suspend, "", Suspended)
	v.must(v.Resume, "", Running)
	v.mustKeep(0)
}

// TestKeptOverATakeOver: the next process knows what is kept.
func TestKeptOverATakeOver(t *testing.T) {
	a := &fake{name: "a", bytes: 6, keeps: true}
	v := keeping(t, 10, a)
	v.TakeOver(true, 1)
	v.Rejoin(a, &Standing{Still: true, Out: true, Image: 6, Kept: 6})
	v.mustKeep(0)
	v.must(v.Resume, "", Running)
	v.mustKeep(6)
	if m := v.must(v.Suspend, "", Suspended); m.Unchanged != 3 {
		t.Errorf("%+v", m)
	}
}
