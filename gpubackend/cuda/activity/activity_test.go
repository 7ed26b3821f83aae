// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestAgainstOracle compares Activity with a flag for each stream and each announcement.
func TestAgainstOracle(t *testing.T) {
	streams := []gpubackend.Stream{gpubackend.DefaultStream, gpubackend.LegacyStream, 2, 3, 4}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		var a Activity
		busy := map[gpubackend.Stream]bool{}
		type sent struct {
			stream gpubackend.Stream
			value  uint32
			work   bool // its stream has had work or another announcement since
		}
		sentTo := map[uint64]*sent{}
		for step := range uint32(60) {
			s := streams[r.IntN(len(streams))]
			one := Unified(s)
			switch r.IntN(4) {
			case 0, 1:
				a.Touch(s)
				busy[one] = true
				for _, x := range sentTo {
					x.work = x.work || x.stream == one
				}
			case 2:
				if got := a.Done(s); got != busy[one] {
					t.Fatalf("seed %d: done is %t", seed, got)
				}
				delete(busy, one)
			case 3:
				addr := r.Uint64N(2)
				if x := sentTo[addr]; x != nil && r.IntN(2) == 0 {
					if got := a.Arrive(addr, x.value); got == x.work {
						t.Fatalf("seed %d: arrival says %t", seed, got)
					} else if got {
						delete(busy, x.stream)
					}
					delete(sentTo, addr)
				} else {
					a.Announce(Announcement{Stream: s, Addr: addr, Value: step})
					for _, x := range sentTo {
						x.work = x.work || x.stream == one
					}
					sentTo[addr] = &sent{stream: one, value: step}
				}
			}
			for _, s := range streams {
				if a.Has(s) != busy[Unified(s)] {
					t.Fatalf("seed %d, step %d: stream %d has work: %t", seed, step, s, a.Has(s))
				}
			}
			if a.Busy() != (len(busy) > 0) {
				t.Fatalf("seed %d: busy is %t", seed, a.Busy())
			}
			if only, ok := a.Only(); ok != (len(busy) == 1) || ok && !busy[only] {
				t.Fatalf("seed %d: only %d, %t", seed, only, ok)
			}
		}
	}
}

// TestQuietUntilTouched: a stream whose end has arrived is quiet until it has work again, the
// legacy stream until any stream has.
func TestQuietUntilTouched(t *testing.T) {
	for _, test := range []struct {
		name         string
		end, touched gpubackend.Stream
		want         bool
	}{
		{"nothing since", 2, 0, true},
		{"its own work", 2, 2, false},
		{"another's", 2, 3, true},
		{"behind others' work", gpubackend.LegacyStream, 3, false},
	} {
		var a Activity
		a.Touch(test.end)
		a.Announce(Announcement{Stream: test.end, Addr: 8, Value: 1})
		if a.IsQuiet(test.end) {
			t.Errorf("%s: quiet before the end", test.name)
		}
		if !a.Arrive(8, 1) || a.Arrive(8, 1) {
			t.Errorf("%s: doesn't arrive once", test.name)
		}
		if test.touched != 0 {
			a.Touch(test.touched)
		}
		if got := a.IsQuiet(test.end); got != test.want {
			t.Errorf("%s: quiet is %t", test.name, got)
		}
	}
}

// TestMarksOutliveTheirStream, but don't pass to a new stream with the same handle.
func TestMarksOutliveTheirStream(t *testing.T) {
	var a Activity
	a.AddMark(Mark{Event: 7, Stream: 2})
	if e, ok := a.MarkOf(2); !ok || e != 7 {
		t.Errorf("mark %d, %t", e, ok)
	}
	a.Touch(2)
	a.Announce(Announcement{Stream: 2, Addr: 8, Value: 1})
	a.Gone(2)
	if _, ok := a.MarkOf(2); ok || a.Marks() != 1 || !a.Busy() || a.Arrive(8, 1) {
		t.Error("another stream has the mark or the announcement")
	}
	if e, ok := a.LatestMark(); !ok || e != 7 {
		t.Errorf("latest mark %d, %t", e, ok)
	}
	a.DropMark()
	if _, ok := a.LatestMark(); ok || a.Busy() {
		t.Error("busy with no mark")
	}
}

func TestTouchDoesNotAllocate(t *testing.T) {
	var a Activity
	a.Touch(2)
	a.Touch(3)
	if n := testing.AllocsPerRun(100, func() { a.Touch(2); a.Touch(3); a.Touch(3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
