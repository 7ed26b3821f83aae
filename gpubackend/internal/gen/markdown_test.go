// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestNarrow has one line that is too long, of each kind.
func TestNarrow(t *testing.T) {
	long := strings.Repeat("a word ", 14) // 98 columns
	for _, tt := range []struct{ name, doc, want string }{
		{"fits", "# H\n\nsome text\n", "# H\n\nsome text\n"},
		{"as long as may be", long + "ab\n", long + "ab\n"},
		{"paragraph", "x\n" + long + "abc\n\ny\n", "x " + strings.TrimSpace(long) + "\nabc\n\ny\n"},
		{"table", "| value | name | |\n|---|---|---|\n| 1 | N | " + long +
			"|\n| 2 | M | short |\n\n## After\n\nit\n",
			"| value | name | |\n|---|---|---|\n| 1 | N | see below |\n| 2 | M | short |\n\n" +
				"- N: " + strings.Repeat("a word ", 13) + "a\n  word\n\n## After\n\nit\n"},
		{"table without a column of names",
			"| a | b | c |\n|---|---|---|\n| 1 | B | " + long + "|\n",
			"| a | b | c |\n|---|---|---|\n| 1 | B | see below |\n\n" +
				"- B: " + strings.Repeat("a word ", 13) + "a\n  word\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := narrow(tt.doc); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
