// SPDX-License-Identifier: Apache-2.0

package suspend

import "testing"

// TestHolds: a worker may hold what is being moved out, what is out, and what it keeps of that.
func TestHolds(t *testing.T) {
	a, b := &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3}
	v := newVM(t, a, b)
	v.Keep = func() uint64 { return 5 }
	check := func(what string, w Worker, want uint64) {
		t.Helper()
		if bytes, known := v.Holds(w); bytes != want || !known {
			t.Errorf("%s: %d bytes, known %t, want %d", what, bytes, known, want)
		}
	}
	a.moves = func() { check("on its way", a, 5) }
	check("while the VM runs", a, 0)
	v.must(v.Suspend, "", Suspended)
	check("suspended", a, 5)
	check("suspended", b, 3)
	v.must(v.Resume, "", Running)
	for _, w := range []Worker{a, b} {
		want := v.kept[w]
		check("resumed", w, want)
		v.Forget(w)
		check("forgotten", w, 0)
	}
	v.TakeOver(true, 1)
	if _, known := v.Holds(a); known {
		t.Error("it is known before the worker has said it")
	}
	v.Rejoin(a, &Standing{Still: true, Out: true, Image: 4})
	check("taken over", a, 4)
}
