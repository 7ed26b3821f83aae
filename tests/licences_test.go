// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofBothSides are the headers that the kernel driver and programs include.
var ofBothSides = []string{
	"guestdriver/include/paracuda_ioctl.h", "guestdriver/include/paracuda_wire.h",
}

// licenceLine matches the line of a source that names its licence, and nothing else.
var licenceLine = regexp.MustCompile(`^(?:// |# |/\* )?SPDX-License-Identifier: ([^*]+?)(?: \*/)?$`)

// licenceIn returns the licence that a line of a source's first three names.
func licenceIn(text string) string {
	lines := strings.SplitN(text, "\n", 4)
	for _, line := range lines[:min(3, len(lines))] {
		if m := licenceLine.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// TestLicences: each source names its licence, as README.md has it.
func TestLicences(t *testing.T) {
	files := sources(t, "*.go", "*.c", "*.h", "*.cu", "*.py", "*.sh", "*.s", "*Makefile",
		"scripts/*")
	if len(files) < 2000 {
		t.Errorf("found %d sources, want at least 2000", len(files))
	}
	for _, file := range files {
		want := "Apache-2.0"
		switch {
		case strings.HasPrefix(file, kernelDriver+"/"), strings.HasSuffix(file, ".patch"):
			want = "GPL-2.0"
		case slices.Contains(ofBothSides, file):
			want = "GPL-2.0 WITH Linux-syscall-note OR Apache-2.0"
		}
		if is := licenceIn(string(read(t, file))); is != want {
			t.Errorf("%s: licence %q, want %q", file, is, want)
		}
	}
}

func TestLicenceIn(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"// SPDX-License-Identifier: Apache-2.0\npackage p\n", "Apache-2.0"},
		{"/* SPDX-License-Identifier: GPL-2.0 */\n", "GPL-2.0"},
		{"#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n", "Apache-2.0"},
		{"# SPDX-License-Identifier: A WITH B OR C\n", "A WITH B OR C"},
		{"a\nb\n// SPDX-License-Identifier: Apache-2.0\n", "Apache-2.0"},
		{"a\nb\nc\n// SPDX-License-Identifier: Apache-2.0\n", ""},
		{"package p // SPDX-License-Identifier: Apache-2.0\n", ""},
		{"// SPDX-License-Identifier: Apache-2.0 A gate\n", "Apache-2.0 A gate"},
		{"", ""},
	} {
		if is := licenceIn(c.text); is != c.want {
			t.Errorf("%q names %q, want %q", c.text, is, c.want)
		}
	}
}
