// SPDX-License-Identifier: Apache-2.0

package saving

import "testing"

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
