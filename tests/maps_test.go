// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mapped is how many files a package may have without a map of them in its package comment. A
// package comment that names mapBegun files or more is a map.
const (
	mapped   = 8
	mapBegun = 4
)

// TestMapsOfFiles: the comment of each package that is large, or has a map, names all files of the
// package, and no others.
func TestMapsOfFiles(t *testing.T) {
	packages, maps := map[string][]string{}, 0
	for _, file := range sources(t, "*.go") {
		if !strings.HasSuffix(file, "_test.go") && path.Base(file) != "doc.go" {
			packages[path.Dir(file)] = append(packages[path.Dir(file)], path.Base(file))
		}
	}
	for dir, files := range packages {
		unnamed, missing := compareMap(packageComment(t, dir), files)
		if len(files) <= mapped && len(files)-len(unnamed) < mapBegun {
			continue
		}
		maps++
		if unnamed != nil {
			t.Errorf("%s: its package comment doesn't name %q", dir, unnamed)
		}
		if missing != nil {
			t.Errorf("%s: its package comment names %q, which don't exist", dir, missing)
		}
	}
	if maps < 25 {
		t.Errorf("found %d packages with maps, want at least 25", maps)
	}
}

var fileName = regexp.MustCompile(`[\w/.*]*\w[*]?\.go\b`)

// compareMap returns the files that a package comment doesn't name, and the names in it that match
// no file. A name may be a pattern. Files of other packages are named with their folder.
func compareMap(comment string, files []string) (unnamed, missing []string) {
	named := fileName.FindAllString(comment, -1)
	matches := func(pattern, file string) bool {
		ok, err := path.Match(pattern, file)
		return err == nil && ok
	}
	for _, file := range files {
		if !slices.ContainsFunc(named, func(n string) bool { return matches(n, file) }) {
			unnamed = append(unnamed, file)
		}
	}
	for _, n := range named {
		if !strings.Contains(n, "/") && !strings.HasPrefix(n, "zz_generated") &&
			!slices.ContainsFunc(files, func(file string) bool { return matches(n, file) }) {
			missing = append(missing, n)
		}
	}
	return unnamed, missing
}

var sourceOfC = regexp.MustCompile(`\b\w+\.c\b`)

// TestMapOfDriver: paracuda.h names all files of the kernel driver but main.c, of which others call
// nothing, and no file that doesn't exist.
func TestMapOfDriver(t *testing.T) {
	const dir = "guestdriver/kernel"
	var files []string
	for _, file := range sources(t, dir+"/*.c") {
		if path.Dir(file) == dir && path.Base(file) != "main.c" {
			files = append(files, path.Base(file))
		}
	}
	named := sourceOfC.FindAllString(string(read(t, dir+"/paracuda.h")), -1)
	slices.Sort(named)
	if named = slices.Compact(named); !slices.Equal(named, files) {
		t.Errorf("paracuda.h names %q, and there are %q", named, files)
	}
}

// packageComment is a package's comment: those of all files that have one.
func packageComment(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && f.Doc != nil {
			all.WriteString(f.Doc.Text())
		}
	}
	return all.String()
}

func TestCompareMap(t *testing.T) {
	files := []string{"ring.go", "call_cgo.go", "pause_arm64.go", "pause_amd64.go"}
	for _, tt := range []struct {
		comment          string
		unnamed, missing []string
	}{
		{"ring.go call_cgo.go (calls) pause_*.go, space/window.go, zz_generated_x.go", nil, nil},
		{"string.go call_cgo.go.\npause_*.go", []string{"ring.go"}, []string{"string.go"}},
		{"the ring, ring.go: pause_a*.go gone_*.go", []string{"call_cgo.go"},
			[]string{"gone_*.go"}},
		{"other/ring.go call_cgo.go", []string{"ring.go", "pause_arm64.go", "pause_amd64.go"}, nil},
	} {
		unnamed, missing := compareMap(tt.comment, files)
		if !slices.Equal(unnamed, tt.unnamed) || !slices.Equal(missing, tt.missing) {
			t.Errorf("%q: unnamed %q, missing %q, want %q and %q", tt.comment, unnamed, missing,
				tt.unnamed, tt.missing)
		}
	}
}
