// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGenerated generates all files in a copy of the tree, and compares them with the tree's.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	copyTree := `git ls-files -z -co --exclude-standard \
			go.mod go.sum docs gpubackend internal guestdriver/include guestdriver/libcuda |
		xargs -0 ls -d 2>/dev/null | xargs cp --parents -t "$0"`
	if r := command(t, time.Minute, root, "sh", "-c", copyTree, dir); r.exit != 0 {
		t.Fatalf("copy the tree: %s", r.stderr)
	}
	for _, generator := range [][]string{
		{"go", "run", "./gpubackend/internal/gen"},
		{"go", "generate", "./..."},
	} {
		if r := command(t, 3*time.Minute, dir, generator...); r.exit != 0 {
			t.Fatalf("%s: %s", strings.Join(generator, " "), r.stderr)
		}
	}
	err := filepath.WalkDir(dir, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		now, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if there, err := os.ReadFile(filepath.Join(root, name)); err != nil ||
			!bytes.Equal(there, now) {
			t.Errorf("%s isn't current: run make generate", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
