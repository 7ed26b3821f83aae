// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestNarrowGo(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("word ", n)) }
	for _, c := range []struct{ name, text, want string }{
		{"narrow", "// one\n// two\nvar a int // three", "// one\n// two\nvar a int // three"},
		{"as wide as it may be", "// " + words(19) + "xyz\nvar a int",
			"// " + words(19) + "xyz\nvar a int"},
		{"a paragraph", "// one\n// " + words(20) + "\n// two\nvar a int",
			"// one " + words(18) + "\n// word word two\nvar a int"},
		{"behind code", "type s struct {\n\ta int // " + words(19) + "\n\tbcd int // short\n}",
			"type s struct {\n\t// " + words(18) + "\n\t// word\n\ta   int\n\tbcd int // short\n}"},
		{"pushed by the code of another line",
			"type s struct {\n\ta int // " + words(16) + "\n\tbcdefghijklmn int // short\n}",
			"type s struct {\n\t// " + words(16) +
				"\n\ta             int\n\tbcdefghijklmn int // short\n}"},
		{"no prose", "// one:\n//\t" + words(20) + "\nvar a int",
			"// one:\n//\n//\t" + words(20) + "\nvar a int"},
		{"a directive", "//go:generate " + words(20) + "\n", "//go:generate " + words(20)},
		{"a string", "var a = \"// " + words(20) + "\"", "var a = \"// " + words(20) + "\""},
	} {
		got, err := narrowGo([]byte("package p\n\n" + c.text + "\n"))
		if want := "package p\n\n" + c.want + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, want)
		}
	}
	if _, err := narrowGo([]byte("package")); err == nil {
		t.Error("what is no Go is formatted")
	}
}
