// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// home is the import path of this package.
const home = "github.com/paracuda/paracuda/gpubackend/soft"

// rooms are those that doc.go lists, in its order, and then what rooms stand on.
func rooms(t *testing.T) (rooms, ground []string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	whole, stands, found := strings.Cut(string(text), "What rooms stand on")
	if !found {
		t.Fatal("no list of what rooms stand on")
	}
	names := func(text string) (list []string) {
		for line := range strings.Lines(text) {
			if entry, ok := strings.CutPrefix(line, "//\t"); ok {
				name, _, _ := strings.Cut(entry, "  ")
				list = append(list, strings.Split(name, ", ")...)
			}
		}
		return list
	}
	return names(whole), names(stands)
}

// imports are the packages below this one that a package imports, tests aside.
func imports(t *testing.T, dir string) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files, %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if path == home {
				t.Errorf("%s imports the device", name)
			}
			if below, ok := strings.CutPrefix(path, home+"/"); ok {
				list = append(list, below)
			}
		}
	}
	return list
}

// TestRoomsKeepTheirOrder: a room imports only rooms above it in the list and what rooms stand on,
// which imports no room.
func TestRoomsKeepTheirOrder(t *testing.T) {
	rooms, ground := rooms(t)
	if len(rooms) < 10 || len(ground) < 5 {
		t.Fatalf("rooms %v on %v", rooms, ground)
	}
	for i, room := range rooms {
		for _, below := range imports(t, room) {
			if !slices.Contains(rooms[:i], below) && !slices.Contains(ground, below) {
				t.Errorf("%s imports %s", room, below)
			}
		}
	}
	for _, part := range ground {
		for _, below := range imports(t, part) {
			if slices.Contains(rooms, below) {
				t.Errorf("%s imports the room %s", part, below)
			}
		}
	}
	for _, part := range imports(t, ".") {
		if !slices.Contains(rooms, part) && !slices.Contains(ground, part) {
			t.Errorf("%s is in no list", part)
		}
	}
}
