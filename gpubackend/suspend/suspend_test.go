// SPDX-License-Identifier: Apache-2.0

package suspend

import (
	"errors"
	"testing"
)

func TestMachine(t *testing.T) {
	for _, test := range []struct {
		state   State
		to      State
		refused string // the error; "" for none
		done    bool
		then    State
	}{
		{Running, Suspending, "", true, Suspended},
		{Running, Suspending, "", false, Running},
		{Suspended, Resuming, "", true, Running},
		{Suspended, Resuming, "", false, Suspended},
		{Running, Resuming, "the VM is running: nothing is changed", false, Running},
		{Suspended, Suspending, "the VM is suspended: nothing is changed", false, Suspended},
		{Suspending, Suspending, "the VM is suspending: nothing is changed", false, Suspending},
		{Suspending, Resuming, "the VM is suspending: nothing is changed", false, Suspending},
		{Resuming, Resuming, "the VM is resuming: nothing is changed", false, Resuming},
		{Resuming, Suspending, "the VM is resuming: nothing is changed", false, Resuming},
	} {
		m := &States{state: test.state}
		err := m.Begin(test.to)
		if test.refused != "" {
			if !errors.Is(err, ErrState) || err.Error() != test.refused || m.State() != test.then {
				t.Errorf("%s to %s: %v, then %s", test.state, test.to, err, m.State())
			}
			continue
		}
		if err != nil || m.State() != test.to || isClosed(m.Idle()) {
			t.Errorf("%s to %s: %v, %s", test.state, test.to, err, m.State())
			continue
		}
		idle := m.Idle()
		m.End(test.done)
		if m.State() != test.then || !isClosed(idle) || !isClosed(m.Idle()) {
			t.Errorf("%s to %s ends (%v) in %s", test.state, test.to, test.done, m.State())
		}
	}
	if s := (&States{}).State(); s != Running {
		t.Errorf("the first state is %q", s)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestTakeFile: a VM can be made to count as suspended to a file, unless a change is under way.
func TestTakeFile(t *testing.T) {
	for state, can := range map[State]bool{
		Running: true, Suspended: true, Suspending: false, Resuming: false,
	} {
		noted := false
		s := New(Config{Note: func(suspended bool) { noted = suspended }})
		s.states.state = state
		err := s.TakeFile()
		if x := s.Status(); can && (err != nil || !noted || !s.Held() ||
			x.State != Suspended || !x.Saved) || !can && (!errors.Is(err, ErrState) ||
			noted || s.Held() || x.State != state || x.Saved) {
			t.Errorf("%s: %v, %+v", state, err, x)
		}
	}
}
