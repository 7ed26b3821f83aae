// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)\nCopyright": {11, 1, 3},
		"QEMU emulator version 7.2.22\n":                                 {7, 2, 22},
	} {
		if got, err := parseVersion(text); err != nil || got != want {
			t.Errorf("parseVersion(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "bash: not found", "QEMU emulator version ten"} {
		if got, err := parseVersion(text); err == nil {
			t.Errorf("parseVersion(%q) = %v", text, got)
		}
	}
}

func TestBefore(t *testing.T) {
	order := []Version{{7, 2, 22}, {10, 0, 2}, {10, 2, 0}, {10, 2, 1}, {11, 0, 0}}
	for i, v := range order {
		for j, w := range order {
			if v.Before(w) != (i < j) {
				t.Errorf("%v before %v: %v", v, w, v.Before(w))
			}
		}
	}
}

func TestCheckVersionNamesTheMend(t *testing.T) {
	_, err := CheckVersion(context.Background(), fakeProgram(t, "QEMU emulator version 10.0.2"))
	if err == nil || !strings.Contains(err.Error(), "QEMU 10.0.2 is too old: install 10.2 or later") {
		t.Errorf("the error is %v", err)
	}
}

func TestCheckVersion(t *testing.T) {
	v, err := CheckVersion(context.Background(), fakeProgram(t, "QEMU emulator version 10.2.0"))
	if err != nil || v != Oldest {
		t.Errorf("CheckVersion = %v, %v", v, err)
	}
}

func TestCheckVersionOfNoProgram(t *testing.T) {
	if _, err := CheckVersion(context.Background(), "/nowhere/qemu"); err == nil {
		t.Error("a program that is not there has a version")
	}
	if _, err := CheckVersion(context.Background(), fakeProgram(t, "hello")); err == nil {
		t.Error("a program that is not QEMU has a version")
	}
}

// fakeProgram makes a program that prints a line.
func fakeProgram(t *testing.T, line string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho '"+line+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}
