// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// use is one file's use of another: it includes it, or uses a symbol of it.
type use struct{ from, to, what string }

// libcuda is where the guest's library is, in folders that are layers.
const libcuda = "guestdriver/libcuda"

// TestLayers: each folder of the guest's library includes and calls only itself and those below it
// (guestdriver/libcuda/layers.txt), and no files call one another in a circle.
func TestLayers(t *testing.T) {
	order, files := layers(t), libraryFiles(t)
	uses := append(includes(t, files), libraryCalls(t)...)
	if len(uses) < 1000 {
		t.Errorf("found %d includes and calls, want at least 1000", len(uses))
	}
	for _, wrong := range upward(order, uses) {
		t.Error(wrong)
	}
	for _, circle := range circles(uses) {
		t.Errorf("files call one another in a circle: %s", strings.Join(circle, ", "))
	}
	var folders []string
	for _, file := range files {
		folders = append(folders, path.Dir(file))
	}
	slices.Sort(folders)
	if folders = slices.Compact(folders); !slices.Equal(folders,
		slices.Sorted(slices.Values(order))) {
		t.Errorf("layers.txt names %q, and there are %q", order, folders)
	}
}

// libraryFiles lists the library's sources and headers, without its tests.
func libraryFiles(t *testing.T) []string {
	var files []string
	for _, pattern := range []string{"*/*.c", "*/*.h", "*.c", "*.h"} {
		found, err := filepath.Glob(filepath.Join(root, libcuda, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			file, err := filepath.Rel(filepath.Join(root, libcuda), file)
			if err != nil {
				t.Fatal(err)
			}
			if path.Dir(file) != "test" {
				files = append(files, file)
			}
		}
	}
	return files
}

// layers returns the folders from the bottom up.
func layers(t *testing.T) []string {
	var order []string
	for line := range strings.Lines(string(read(t, libcuda+"/layers.txt"))) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] != "#" {
			order = append(order, fields[0])
		}
	}
	return order
}

var included = regexp.MustCompile(`(?m)^#include "([^"]+)"`)

// includes finds which of the library's headers its files include. Those of guestdriver/include
// don't count.
func includes(t *testing.T, files []string) []use {
	var uses []use
	for _, from := range files {
		for _, m := range included.FindAllSubmatch(read(t, filepath.Join(libcuda, from)), -1) {
			if to := string(m[1]); strings.Contains(to, "/") {
				uses = append(uses, use{from, to, "includes"})
			} else if _,
				err := os.Stat(filepath.Join(root, "guestdriver/include", to)); err != nil {
				t.Errorf("%s includes %q without its folder", from, to)
			}
		}
	}
	return uses
}

// libraryCalls builds the library, and finds which of its files use symbols of which others.
func libraryCalls(t *testing.T) []use {
	definedIn, undefined := map[string]string{}, map[string][]string{}
	eachSymbol(t, func(source string, s elf.Symbol, section *elf.Section) {
		switch {
		case elf.ST_BIND(s.Info) == elf.STB_LOCAL:
		case s.Section == elf.SHN_UNDEF:
			undefined[source] = append(undefined[source], s.Name)
		default:
			definedIn[s.Name] = source
		}
	})
	var uses []use
	for from, names := range undefined {
		for _, name := range names {
			if to := definedIn[name]; to != "" {
				uses = append(uses, use{from, to, "uses " + name + " of"})
			}
		}
	}
	return uses
}

// eachSymbol builds the library and calls f for each symbol of its objects. The section is nil
// for those that are defined elsewhere.
func eachSymbol(t *testing.T, f func(source string, s elf.Symbol, section *elf.Section)) {
	t.Helper()
	if out, err := exec.Command("make", "-s", "-C",
		filepath.Join(root, libcuda)).CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	for _, source := range libraryFiles(t) {
		name, isC := strings.CutSuffix(source, ".c")
		if !isC {
			continue
		}
		object, err := elf.Open(filepath.Join(root, "build/guest/obj/libcuda", name+".o"))
		if err != nil {
			t.Fatal(err)
		}
		defer object.Close()
		symbols, err := object.Symbols()
		if err != nil {
			t.Fatalf("symbols of %s: %v", source, err)
		}
		for _, s := range symbols {
			var section *elf.Section
			if int(s.Section) < len(object.Sections) && s.Section != elf.SHN_UNDEF {
				section = object.Sections[s.Section]
			}
			f(source, s, section)
		}
	}
}

// TestState: every variable of the library is in guestdriver/libcuda/state.txt, which says who
// writes it under which lock.
func TestState(t *testing.T) {
	listed, found := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(read(t, libcuda+"/state.txt"))) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] != "#" {
			listed[fields[0]+" "+fields[1]] = true
		}
	}
	eachSymbol(t, func(source string, s elf.Symbol, section *elf.Section) {
		if section == nil || !isVariable(s, section) {
			return
		}
		name, _, _ := strings.Cut(s.Name, ".") // a function's own variable has a number
		found[source+" "+name] = true
	})
	for variable := range found {
		if !listed[variable] {
			t.Errorf("%s is in the library, but not in state.txt", variable)
		}
	}
	for variable := range listed {
		if !found[variable] {
			t.Errorf("%s is in state.txt, but not in the library", variable)
		}
	}
}

// isVariable tells what can be written from what is constant once the library is loaded.
func isVariable(s elf.Symbol, section *elf.Section) bool {
	kind := elf.ST_TYPE(s.Info)
	return (kind == elf.STT_OBJECT || kind == elf.STT_TLS) && section.Flags&elf.SHF_WRITE != 0 &&
		!strings.HasPrefix(section.Name, ".data.rel.ro")
}

// upward finds the uses of a folder by one below it, and uses by or of folders without a layer.
func upward(order []string, uses []use) []string {
	var wrong []string
	for _, u := range uses {
		from, to := slices.Index(order, path.Dir(u.from)), slices.Index(order, path.Dir(u.to))
		switch {
		case from < 0:
			wrong = append(wrong, u.from+": its folder is not in layers.txt")
		case to < 0:
			wrong = append(wrong,
				fmt.Sprintf("%s %s %s, whose folder is not in layers.txt", u.from, u.what, u.to))
		case to > from:
			wrong = append(wrong, fmt.Sprintf("%s %s %s, which is above it", u.from, u.what, u.to))
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// circles returns the groups of files in which each file reaches all others by calls.
func circles(uses []use) [][]string {
	next := map[string][]string{}
	for _, u := range uses {
		if u.what != "includes" && u.from != everyFunction {
			next[u.from] = append(next[u.from], u.to)
		}
	}
	reached := map[string]map[string]bool{}
	for from := range next {
		seen := map[string]bool{}
		for todo := []string{from}; len(todo) > 0; {
			file := todo[0]
			todo = todo[1:]
			for _, to := range next[file] {
				if !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		reached[from] = seen
	}
	var found [][]string
	named := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(next)) {
		if !reached[from][from] || named[from] {
			continue
		}
		var circle []string
		for _, to := range slices.Sorted(maps.Keys(reached[from])) {
			if reached[to][from] {
				circle = append(circle, to)
				named[to] = true
			}
		}
		found = append(found, circle)
	}
	return found
}

// everyFunction has the addresses of all exported functions, and so of the one that uses it.
const everyFunction = "exports/zz_generated_procs.c"

// TestCircles: circles finds each circle once.
func TestCircles(t *testing.T) {
	for _, c := range []struct{ uses, want string }{
		{"a b, b c", "[]"},
		{"a b, b a", "[[a b]]"},
		{"a b, b c, c b, c d", "[[b c]]"},
		{"a b, b c, c a, d e, e d", "[[a b c] [d e]]"},
		{"a b, b " + everyFunction + ", " + everyFunction + " a", "[]"},
	} {
		var uses []use
		for pair := range strings.SplitSeq(c.uses, ", ") {
			from, to, _ := strings.Cut(pair, " ")
			uses = append(uses, use{from, to, "uses x of"})
		}
		if got := fmt.Sprint(circles(uses)); got != c.want {
			t.Errorf("%s: %s, want %s", c.uses, got, c.want)
		}
	}
}

// TestUpward: upward finds the wrong uses.
func TestUpward(t *testing.T) {
	order := []string{"base", "transport", "copies"}
	for _, c := range []struct {
		use  use
		want string
	}{
		{use{"copies/copy.c", "transport/ring.h", "includes"}, ""},
		{use{"transport/ring.c", "transport/slot.c", "uses slot_begin of"}, ""},
		{use{"base/log.c", "transport/ring.c", "uses ring_wake of"},
			"base/log.c uses ring_wake of transport/ring.c, which is above it"},
		{use{"new/new.c", "base/log.h", "includes"}, "new/new.c: its folder is not in layers.txt"},
		{use{"copies/copy.c", "new/new.h", "includes"},
			"copies/copy.c includes new/new.h, whose folder is not in layers.txt"},
	} {
		if got := strings.Join(upward(order, []use{c.use}), "; "); got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.use.from, c.use.what, c.use.to, got, c.want)
		}
	}
}
