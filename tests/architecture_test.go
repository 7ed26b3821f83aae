// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecture: the files and folders that the page names exist, except what is built. The page
// names each folder at the top and each package, except those that only tests use.
func TestArchitecture(t *testing.T) {
	page := string(read(t, "docs/architecture.md"))
	path := regexp.MustCompile("`([a-z_]+/[\\w./-]+)`")
	found := path.FindAllStringSubmatch(page, -1)
	if len(found) < 40 {
		t.Fatalf("architecture.md: found %d paths, want at least 40", len(found))
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

// TestWaysThroughTheFiles: the files that the three ways name exist. A file named without a folder
// is in the folder of the one before it.
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
		t.Errorf("architecture.md: found %d files in the three ways, want at least 40", n)
	}
}

// TestRooms: the table of rooms names folders that exist, and one word for a room in the worker and
// both devices. Each room that two of these have is in the table.
func TestRooms(t *testing.T) {
	sides := []string{"guestdriver/libcuda", "gpubackend/worker", "gpubackend/cuda",
		"gpubackend/soft"}
	page := string(read(t, "docs/architecture.md"))
	_, table, _ := strings.Cut(page, "### Where the rooms are")
	table, _, _ = strings.Cut(table, "\n###")
	told := map[string]bool{}
	for _, wrong := range roomsIn(table, sides, told) {
		t.Error(wrong)
	}
	if len(told) < 10 {
		t.Errorf("the table of rooms has %v, want at least 10 rooms", told)
	}
	for room, n := range foldersOf(t, sides[1:]) {
		if n > 1 && !told[room] {
			t.Errorf("the table of rooms lacks %s, a folder of %d of %v", room, n, sides[1:])
		}
	}
}

// roomsIn adds the rooms of a table to told, and returns what is wrong with the table.
func roomsIn(table string, sides []string, told map[string]bool) (wrong []string) {
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != len(sides)+1 || strings.HasPrefix(cells[0], "-") ||
			strings.Contains(line, "| library |") {
			continue
		}
		row := map[string]bool{}
		for i, cell := range cells[1:] {
			room := strings.Trim(cell, " `")
			if room == "" {
				continue
			}
			if !existsBelow(room, sides[i]) {
				wrong = append(wrong, fmt.Sprintf("%s has no folder %s", sides[i], room))
			}
			if i > 0 {
				row[room], told[room] = true, true
			}
		}
		if len(row) > 1 {
			wrong = append(wrong, "several words for one room: "+strings.TrimSpace(line))
		}
	}
	return wrong
}

// foldersOf counts how many of the sides have a folder of each name, without those of tests.
func foldersOf(t *testing.T, sides []string) map[string]int {
	n := map[string]int{}
	for _, side := range sides {
		entries, err := os.ReadDir(filepath.Join(root, side))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() && e.Name() != "testdata" && !forTests.MatchString(e.Name()) {
				n[e.Name()]++
			}
		}
	}
	return n
}

// TestRoomsThatDiffer gives roomsIn a table with two mistakes.
func TestRoomsThatDiffer(t *testing.T) {
	sides := []string{"guestdriver/libcuda", "gpubackend/worker", "gpubackend/cuda",
		"gpubackend/soft"}
	const table = "| subject | library | worker | `cuda` | `soft` |\n|---|---|---|---|---|\n" +
		"| copies | `copies` | `copies` | `copies` | |\n" +
		"| memory | `memory` | `memory` | `hostmemory` | |\n| nothing | | `nowhere` | | |\n"
	told := map[string]bool{}
	if wrong := roomsIn(table, sides, told); len(wrong) != 2 || len(told) != 4 {
		t.Errorf("found the mistakes %q and the rooms %v, want 2 and 4 of them", wrong, told)
	}
}

// foldersToName are the folders at the top, and those with Go files that not only tests use.
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

// forTests matches the folders that only tests and generators use.
var forTests = regexp.MustCompile(`test$|^tests/|internal/(leaks|roomcheck)|gen/layout|/loopgen$`)

// names says whether a page names a folder, by its whole path or the end of it.
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
			t.Errorf("%s is named: %v, want %v", folder, !want, want)
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
