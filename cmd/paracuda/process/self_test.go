// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSelf: after an upgrade a process still starts its children from its own program.
func TestSelf(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "paracuda")
	if err := os.WriteFile(other, []byte("another version"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		own: own, other: ThisProgram, other + ".gone": ThisProgram,
	} {
		if got := selfAt(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
