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
	for carrier, c := range map[Carrier]struct{ version, want string }{
		FS: {"6.2.0", "QEMU 6.2.0 is too old for vhost-user-fs-pci: install 7.2 or later"},
		Generic: {"10.0.2",
			"QEMU 10.0.2 is too old for vhost-user-test-device-pci: install 10.2 or later"},
	} {
		_, err := CheckVersion(context.Background(),
			fakeProgram(t, "QEMU emulator version "+c.version), carrier)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v", err)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for carrier, c := range carriers {
		v, err := CheckVersion(context.Background(),
			fakeProgram(t, "QEMU emulator version "+c.oldest.String()), carrier)
		if err != nil || v != c.oldest {
			t.Errorf("CheckVersion = %v, %v", v, err)
		}
	}
}

func TestCheckVersionOfNoProgram(t *testing.T) {
	if _, err := CheckVersion(context.Background(), "/nowhere/qemu", FS); err == nil {
		t.Error("a program that is not there has a version")
	}
	if _, err := CheckVersion(context.Background(), fakeProgram(t, "hello"), FS); err == nil {
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
