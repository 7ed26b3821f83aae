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
// names each folder at the top and each package, but for those that only tests use.
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
	for folder := range foldersToName(sources(t)) {
		if !names(page, folder) {
			t.Errorf("architecture.md doesn't name %s", folder)
		}
	}
}

// TestWaysThroughTheFiles: a file that a way names without a folder lies where the one before it
// does.
func TestWaysThroughTheFiles(t *testing.T) {
	page := string(read(t, "docs/architecture.md"))
	_, ways, _ := strings.Cut(page, "## Three ways through the files")
	ways, _, _ = strings.Cut(ways, "\n## ")
	file := regexp.MustCompile("`([\\w./-]+\\.(?:c|go|def))`")
	n, folder := 0, ""
	for _, m := range file.FindAllStringSubmatch(ways, -1) {
		name := m[1]
		if dir, file := filepath.Split(name); dir != "" {
			folder, name = dir, file
		}
		n++
		if !existsBelow(folder+name, "", "gpubackend", "guestdriver/libcuda") {
			t.Errorf("a way through the files names %s, which isn't in %s", name, folder)
		}
	}
	if n < 40 {
		t.Errorf("found %d files only", n)
	}
}

// foldersToName are the folders at the top, and those with Go that isn't for tests alone.
func foldersToName(files []string) map[string]bool {
	folders := map[string]bool{}
	for _, file := range files {
		if top, _, below := strings.Cut(file, "/"); below && top != "cmd" {
			folders[top] = true
		}
		dir := filepath.Dir(file)
		if filepath.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") && dir != "." &&
			!forTests.MatchString(dir) {
			folders[dir] = true
		}
	}
	return folders
}

// forTests are the folders of what only tests and generators use.
var forTests = regexp.MustCompile(`test$|^tests/|internal/(leaks|roomcheck)|gen/layout|/loopgen$`)

// names says whether a page names a folder: by the end of its path.
func names(page, folder string) bool {
	for {
		if strings.Contains(page, "`"+folder+"`") || strings.Contains(page, "`"+folder+"/") {
			return true
		}
		_, rest, more := strings.Cut(folder, "/")
		if !more {
			return false
		}
		folder = rest
	}
}

func TestNames(t *testing.T) {
	const page = "`a/b`: one; `c`, and `d/e.go`"
	for folder, want := range map[string]bool{"a/b": true, "x/a/b": true, "c": true, "x/y/c": true,
		"d": true, "b": false, "a": true, "e": false} {
		if names(page, folder) != want {
			t.Errorf("%s: %v", folder, !want)
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
