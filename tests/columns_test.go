// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// eightWide matches the files in which a tab is 8 columns wide, as in the kernel's sources.
var eightWide = regexp.MustCompile(`\.[ch]$|(^|/)(Makefile|Kbuild)$`)

// definedFunction matches a function of cuda.def, which is one line as in a table.
var definedFunction = regexp.MustCompile(`(?m)^[0-9]+ .*`)

// widest is the greatest number of columns of a line.
const widest = 100

// TestColumns looks for lines that are too long, in documents and in code.
func TestColumns(t *testing.T) {
	for _, file := range sources(t, "*.md") {
		if n := tooWide(string(read(t, file)), 4); n != nil {
			t.Errorf("%s: more than %d columns in the lines %v", file, widest, n)
		}
	}
	for _, file := range sources(t, "*.def") {
		text := definedFunction.ReplaceAllString(string(read(t, file)), "")
		if n := tooWide(text, 8); n != nil {
			t.Errorf("%s: more than %d columns in the lines %v", file, widest, n)
		}
	}
	counted := sources(t, "*.go", "*.c", "*.h", "*.cu", "*.py", "*.yml", "*.sh", "scripts/*",
		".ci/*", "Makefile", "*/Makefile", "Kbuild", "*/Kbuild")
	for _, file := range append(counted, scripts(t)...) {
		tab := 4
		if eightWide.MatchString(file) {
			tab = 8
		}
		if n := tooWide(string(read(t, file)), tab); n != nil {
			t.Errorf("%s: more than %d columns in the lines %v", file, widest, n)
		}
	}
}

// scripts lists the files that begin with #!.
func scripts(t *testing.T) (files []string) {
	for _, file := range sources(t) {
		if text := read(t, file); bytes.HasPrefix(text, []byte("#!")) {
			files = append(files, file)
		}
	}
	if len(files) < 30 {
		t.Errorf("found %d scripts, want at least 30", len(files))
	}
	return files
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
			t.Errorf("%q: lines %v, want %v", tt.text[:min(9, len(tt.text))], got, tt.want)
		}
	}
}
