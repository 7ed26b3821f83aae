// SPDX-License-Identifier: Apache-2.0

package device

import (
	"io"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// mustRefuse checks that a change was refused for that reason, and in which state the VM is then.
func (v *vm) mustRefuse(err error, text string, then suspend.State) {
	v.t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) || v.dev.suspension.State() != then {
		v.t.Fatalf("%v, want %q; then %+v", err, text, v.dev.suspension.Status())
	}
}

// TestSavedTwice: a VM that is in a file can't be suspended to another, and one that has gone on
// from a file can't go on from it once more; of two commands at a time one succeeds.
func TestSavedTwice(t *testing.T) {
	s := newSuspended(t)
	s.allocate(apart)
	for range 2 {
		f := s.saveTo()
		_, err := s.dev.saving.Save(io.Discard, false, nil, func() error { return nil }, noProgress)
		s.mustRefuse(err, "the VM is suspended", suspend.Suspended)
		ended := make(chan error)
		for range 2 {
			go func() {
				_, err := s.dev.saving.Load(f, noProgress)
				ended <- err
			}()
		}
		a, b := <-ended, <-ended
		if (a == nil) == (b == nil) || s.dev.suspension.State() != suspend.Running {
			t.Fatalf("%v, %v, %+v", a, b, s.dev.suspension.Status())
		}
		_, err = s.dev.saving.Load(f, noProgress)
		s.mustRefuse(err, "the VM is running", suspend.Running)
		s.mustHold()
	}
	s.saveTo()
}

// TestSaveBusy: a kernel that never ends keeps a VM from being suspended to a file, and goes on.
func TestSaveBusy(t *testing.T) {
	v := greetedVM(t, &processes{}, Timeouts{}, "stop-grace=200ms")
	c := v.count(0)
	kept := false
	keep := func() error { kept = true; return nil }
	_, err := v.dev.saving.Save(io.Discard, false, nil, keep, noProgress)
	v.mustRefuse(err, "busy: ", suspend.Running)
	before := c.read()
	mustCome(t, "the kernel counts on", func() bool { return c.read() != before })
	c.end()
	if kept || v.workers() != 1 {
		t.Errorf("the file is kept: %t, with %d workers", kept, v.workers())
	}
}
