// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestTakeOver: whenever a device process ends during a change, the VM is afterwards as it was
// before the change.
func TestTakeOver(t *testing.T) {
	still, out := Standing{Still: true}, Standing{Still: true, Out: true, Image: 5}
	in := Standing{Still: true, Image: 5}
	for _, test := range []struct {
		name      string
		suspended bool
		standing  *Standing
		asked     string
		goesOn    bool
		image     uint64
	}{
		{"runs", false, &Standing{}, "", false, 0},
		{"was drained", false, &still, "", true, 0},
		{"was moved out", false, &out, "in", true, 0},
		{"was moved in again", false, &in, "", true, 0},
		{"is gone", false, nil, "", false, 0},
		{"is suspended", true, &out, "", false, 5},
		{"is suspended without memory", true, &still, "", false, 0},
		{"was moved in", true, &in, "back", false, 5},
		{"is suspended and gone", true, nil, "", false, 0},
	} {
		w := &fake{name: "a", bytes: 5}
		v := newVM(t, w)
		v.TakeOver(test.suspended, 1)
		then := Running
		if test.suspended {
			then = Suspended
		}
		if v.State() != then || v.Held() != test.suspended {
			t.Errorf("%s: the VM is %s, held %t", test.name, v.State(), v.Held())
		}
		if got := v.Rejoin(w, test.standing); got != test.goesOn {
			t.Errorf("%s: goes on: %t", test.name, got)
		}
		if did := w.did(); did != test.asked {
			t.Errorf("%s: asked %q, want %q", test.name, did, test.asked)
		}
		if s := v.Status(); s != (Status{State: then, Image: test.image}) {
			t.Errorf("%s: %+v", test.name, s)
		}
	}
}

// TestChangesWaitForWorkers that haven't rejoined.
func TestChangesWaitForWorkers(t *testing.T) {
	a, b := &fake{name: "a", bytes: 5}, &fake{name: "b", bytes: 3}
	v := newVM(t, a, b)
	v.TakeOver(true, 2)
	resumed := make(chan error, 1)
	go func() {
		_, err := v.Resume(silent)
		resumed <- err
	}()
	v.Rejoin(a, &Standing{Still: true, Out: true, Image: 5})
	select {
	case err := <-resumed:
		t.Fatalf("it doesn't wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	v.Rejoin(b, &Standing{Still: true, Out: true, Image: 3})
	if err := <-resumed; err != nil || v.State() != Running {
		t.Fatalf("%v, the VM is %s", err, v.State())
	}
	if got := v.did(); !slices.Equal(got, []string{"in", "in"}) {
		t.Errorf("asked %q", got)
	}
}

// TestNoRoomAtTakeOver: memory that can't come in stays out, and the VM is suspended, which is
// noted.
func TestNoRoomAtTakeOver(t *testing.T) {
	a := &fake{name: "a", bytes: 5, fails: map[string]error{"in": errors.New("full")}}
	v := newVM(t, a)
	var noted []bool
	v.Note = func(suspended bool) { noted = append(noted, suspended) }
	v.TakeOver(false, 1)
	if v.Rejoin(a, &Standing{Still: true, Out: true, Image: 5}) {
		t.Error("it goes on")
	}
	if v.Status() != (Status{State: Suspended, Image: 5}) || !v.Held() {
		t.Errorf("%+v, held %t", v.Status(), v.Held())
	}
	a.fails = nil
	v.must(v.Resume, "", Running)
	v.must(v.Suspend, "", Suspended)
	v.must(v.Resume, "", Running)
	if want := []bool{true, false, true, false}; !slices.Equal(noted, want) {
		t.Errorf("noted %v, want %v", noted, want)
	}
}

// TestNotedBeforeWorkersGoOn: a new state is noted when all memory is where it is to be, and before
// workers go on.
func TestNotedBeforeWorkersGoOn(t *testing.T) {
	a := &fake{name: "a", bytes: 5}
	v := newVM(t, a)
	var noted []string
	v.Note = func(suspended bool) {
		noted = append(noted, a.did())
		if !suspended && v.went > 0 {
			t.Error("the worker goes on before that is noted")
		}
	}
	v.must(v.Suspend, "", Suspended)
	v.must(v.Resume, "", Running)
	if want := []string{"drain out", "in"}; !slices.Equal(noted, want) {
		t.Errorf("before what was noted: %q, want %q", noted, want)
	}
}
