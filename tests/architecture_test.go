// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecture: the files and folders that the page names exist, but for what is built, and it
// names each package that lies directly in gpubackend.
func TestArchitecture(t *testing.T) {
	page := string(read(t, "docs/architecture.md"))
	path := regexp.MustCompile("`([a-z_]+/[\\w./-]+)`")
	found := path.FindAllStringSubmatch(page, -1)
	if len(found) < 40 {
		t.Fatalf("found %d paths only", len(found))
	}
	for _, p := range found {
		if !strings.HasPrefix(p[1], "build/") &&
			!existsBelow(p[1], "", "gpubackend", "guestdriver/libcuda") {
			t.Errorf("architecture.md names %s, which doesn't exist", p[1])
		}
	}
	for _, file := range sources(t, "gpubackend/*/*.go") {
		dir := strings.Split(file, "/")[1]
		if dir != "internal" && !strings.Contains(page, "`"+dir+"`") {
			t.Errorf("architecture.md doesn't name gpubackend/%s", dir)
		}
	}
}

func existsBelow(path string, folders ...string) bool {
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(root, folder, path)); err == nil {
			return true
		}
	}
	return false
}
