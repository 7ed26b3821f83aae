// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

func TestReadLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []line
	}{
		{"nothing", "", nil},
		{"a comment that goes on", "u8 a # one\n  # two\n\t#three\nu8 b",
			[]line{{1, "u8 a # one two three"}, {4, "u8 b"}}},
		{"after a line without one", "u8 a\n  # two", []line{{1, "u8 a"}, {2, "  # two"}}},
		{"after an empty line", "u8 a # one\n\n  # two",
			[]line{{1, "u8 a # one"}, {2, ""}, {3, "  # two"}}},
		{"in the first column", "u8 a # one\n# two", []line{{1, "u8 a # one"}, {2, "# two"}}},
		{"after one in the first column", "# one\n  # two", []line{{1, "# one"}, {2, "  # two"}}},
		{"before code", "u8 a # one\n  u8 b # two", []line{{1, "u8 a # one"}, {2, "  u8 b # two"}}},
	} {
		got, err := readLines(strings.NewReader(c.text))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
