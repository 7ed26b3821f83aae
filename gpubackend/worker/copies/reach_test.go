// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// pageable is a copy that the mover makes.
func (r *rig) pageable(base uint64) gpubackend.Result {
	return r.do(gpubackend.OpCopyDtoH, true, base, wire.BufferMap<<56, 4096, 4096, 0, 0)
}

// TestTheFirstCopyAsksForTheMover, once, and those after it wait for the same one.
func TestTheFirstCopyAsksForTheMover(t *testing.T) {
	r := newLoneRig()
	if r.do(gpubackend.OpCopyDtoH, true, lent, wire.BufferMap<<56, 0, 0, 0, 0); r.needs != 0 {
		t.Error("a copy of nothing needs no mover")
	}
	for _, base := range []uint64{lent, plain} {
		if got := r.pageable(base); got != call.Pending {
			t.Fatalf("without a mover: %v", got)
		}
	}
	if over := r.poll(); len(over) != 0 || r.needs != 1 || r.Active() {
		t.Fatalf("over %v, asked %d times, active %v", over, r.needs, r.Active())
	}
	r.Connect(r.mover)
	if over := r.turns(); len(over) != 2 || over[0] != gpubackend.Success ||
		over[1] != gpubackend.Success || r.needs != 1 || r.maps.uses != 0 {
		t.Errorf("over %v, asked %d times, %d uses", over, r.needs, r.maps.uses)
	}
}

// TestNoMover: if there is no mover, the copies that wait for it fail. A later copy asks again.
func TestNoMover(t *testing.T) {
	r := newLoneRig()
	for _, base := range []uint64{lent, plain} {
		r.pageable(base)
	}
	r.Refused(errors.New("no process"))
	if got := r.pageable(lent); got != call.Pending || r.needs != 2 {
		t.Fatalf("%v, asked %d times", got, r.needs)
	}
	if over := r.poll(); len(over) != 2 || over[0] != gpubackend.DeviceUnavailable ||
		over[1] != gpubackend.DeviceUnavailable || r.maps.uses != 1 {
		t.Fatalf("over %v, %d uses", over, r.maps.uses)
	}
	r.Connect(r.mover)
	r.poll()
	r.mover.end(0, nil)
	if over := r.poll(); len(over) != 1 || over[0] != gpubackend.Success || r.maps.uses != 0 {
		t.Errorf("over %v, %d uses", over, r.maps.uses)
	}
}

// TestAskAgain: a device process may die before it answers. So the next one is asked, too, and
// there may be two answers.
func TestAskAgain(t *testing.T) {
	r := newLoneRig()
	if r.AskAgain(); r.needs != 0 {
		t.Error("nobody needs it")
	}
	r.pageable(lent)
	if r.AskAgain(); r.needs != 2 {
		t.Fatalf("asked %d times", r.needs)
	}
	r.Connect(r.mover)
	r.Refused(errors.New("the worker has a connection already"))
	if r.AskAgain(); r.needs != 2 || !r.Reaches() {
		t.Errorf("asked %d times", r.needs)
	}
	r.poll()
	r.mover.end(0, nil)
	if over := r.poll(); len(over) != 1 || over[0] != gpubackend.Success {
		t.Errorf("over %v", over)
	}
}

// TestRelease gives up a mover that no copy uses, with what it was lent. The next copy asks again.
func TestRelease(t *testing.T) {
	r := newLoneRig()
	if r.Release(false) {
		t.Error("a mover was given up that nobody has")
	}
	r.Connect(r.mover)
	for round := range 3 {
		for _, base := range []uint64{lent, plain} {
			r.pageable(base)
		}
		var over []gpubackend.Result
		for range 10 {
			if r.reach.mover == nil {
				r.Connect(r.mover)
			}
			if r.Active() && r.Release(false) {
				t.Fatal("a mover was given up that copies")
			}
			for len(r.d.queue) > 0 {
				r.d.queue[0]()
				r.d.queue = r.d.queue[1:]
			}
			for len(r.d.moving) > 0 {
				r.mover.end(0, nil)
			}
			over = append(over, r.poll()...)
		}
		if len(over) != 2 || over[0] != gpubackend.Success || over[1] != gpubackend.Success ||
			r.needs != round {
			t.Fatalf("round %d: over %v, asked %d times", round, over, r.needs)
		}
		before, gone := r.mover.detached, round == 1
		if !r.Release(gone) || r.staging.opened || len(r.loans.list) != 0 ||
			r.mover.closed != round+1 {
			t.Fatalf("round %d: not given up: %d loans, closed %d times", round,
				len(r.loans.list), r.mover.closed)
		}
		if asked := r.mover.detached - before; (asked == 0) != gone {
			t.Errorf("round %d: asked %d times to give back", round, asked)
		}
	}
}
