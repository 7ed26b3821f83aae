// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"path/filepath"
	"testing"
)

// TestBuildOf: what belongs to a program is found beside it, and where it is installed.
func TestBuildOf(t *testing.T) {
	for _, tt := range []struct{ name, made, want string }{
		{"tree or bundle", "build/guest", "build"},
		{"installed", "lib/paracuda/build/guest", "lib/paracuda/build"},
		{"neither", "lib/paracuda", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, tt.made), 0o755); err != nil {
				t.Fatal(err)
			}
			want := ""
			if tt.want != "" {
				want = filepath.Join(dir, tt.want)
			}
			if got := buildOf(filepath.Join(dir, "bin")); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}
