// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// widest is how many columns a line may have.
const widest = 100

// wideLines is how many longer lines the sources of a folder, and those below it, have at most,
// from the time before the rule. The numbers only go down; a folder that isn't here has none.
var wideLines = map[string]int{
	"cmd/paracuda":      21,
	"gpubackend/device": 2,
	"scripts":           6,
	"tests":             19,
	"tests/hostile":     7,
	"tests/programs":    3,
}

// TestColumns looks for lines that are too long, in documents and in what people write.
func TestColumns(t *testing.T) {
	for _, file := range sources(t, "*.md") {
		if n := tooWide(string(read(t, file)), 4); n != nil {
			t.Errorf("%s: more than %d columns in the lines %v", file, widest, n)
		}
	}
	found, first := map[string]int{}, map[string]string{}
	for _, file := range sources(t, "*.go", "*.c", "*.h", "*.sh", "scripts/*", ".ci/*") {
		tab := 4
		if ext := filepath.Ext(file); ext == ".c" || ext == ".h" {
			tab = 8 // as the kernel has it
		}
		if n := tooWide(string(read(t, file)), tab); n != nil {
			folder := folderOf(file)
			found[folder] += len(n)
			first[folder] += fmt.Sprintf(" %s:%d", file, n[0])
		}
	}
	sum := 0
	for folder, n := range found {
		sum += n
		if most := wideLines[folder]; n > most {
			t.Errorf("%s: %d lines of more than %d columns, at most %d may be; "+
				"the first of each file:%s",
				folder, n, widest, most, first[folder])
		} else if n < most {
			t.Logf("%s: %d lines of more than %d columns, %d may be", folder, n, widest, most)
		}
	}
	for folder := range wideLines {
		if found[folder] == 0 {
			t.Errorf("%s has no such line any more: take it off the list", folder)
		}
	}
	t.Logf("%d lines of sources have more than %d columns", sum, widest)
}

// folderOf is the folder under which a file's long lines are counted: the first two names of its
// path.
func folderOf(file string) string {
	dir := strings.Split(filepath.ToSlash(filepath.Dir(file)), "/")
	return strings.Join(dir[:min(2, len(dir))], "/")
}

// tooWide returns the numbers of the lines that have too many columns.
func tooWide(text string, tab int) (numbers []int) {
	for i, line := range strings.Split(text, "\n") {
		columns := 0
		for _, r := range line {
			if r == '\t' {
				columns += tab - columns%tab
			} else {
				columns++
			}
		}
		if columns > widest {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func TestTooWide(t *testing.T) {
	full := strings.Repeat("x", widest)
	for _, tt := range []struct {
		text string
		want []int
	}{
		{"", nil}, {full, nil}, {full + "\n" + full, nil}, {strings.Repeat("µ", widest), nil},
		{"a\n" + full + "x\n\n" + full + "y", []int{2, 4}},
		{"\t" + full[:widest-4], nil}, {"\t" + full[:widest-3], []int{1}},
		{"ab\t" + full[:widest-4], nil},
	} {
		if got := tooWide(tt.text, 4); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.text[:min(9, len(tt.text))], got, tt.want)
		}
	}
}
