// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// TestMovable: those that couldn't be saved are named, with their reasons. A VM that is suspended
// isn't asked.
func TestMovable(t *testing.T) {
	v := newVM(t, "a", "b", "c")
	if err := v.Movable(); err != nil {
		t.Errorf("none stays: %v", err)
	}
	v.workers[0].stays, v.workers[2].stays = "one", "another"
	want := "a (pid 10): one, c (pid 12): another"
	if err := v.Movable(); err == nil || err.Error() != want {
		t.Errorf("two stay: %v, want %q", err, want)
	}
	if _, err := v.suspension.Suspend(silent); err != nil {
		t.Fatal(err)
	}
	if err := v.Movable(); err != nil {
		t.Errorf("suspended: %v", err)
	}
}

// TestOpenDescriptors: nothing makes what they are of again, so nothing is saved while there are
// any, and the VM says so.
func TestOpenDescriptors(t *testing.T) {
	v := newVM(t, "a", "b")
	open := 1
	v.config.Descriptors = func() int { return open }
	if err := v.Movable(); !errors.Is(err, errDescriptors) {
		t.Errorf("movable: %v", err)
	}
	var f bytes.Buffer
	_, err := v.Save(&f, false, nil, kept, silent)
	if !errors.Is(err, errDescriptors) || f.Len() > 0 || v.suspension.State() != suspend.Running {
		t.Errorf("%v, %d bytes are written, the VM is %s", err, f.Len(), v.suspension.State())
	}
	v.mustRun("0a", "1b")
	open = 0
	if err := v.Movable(); err != nil {
		t.Error(err)
	}
	v.mustSave()
}
