// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetSaves: what a VM has accepted is written to its file, and nothing else.
func TestSetSaves(t *testing.T) {
	dir := t.TempDir()
	control, _ := startDevice(t, dir)
	file := filepath.Join(dir, "vm.conf")
	const before = "gpu = \"soft\" # here\n\n[set]\nbatch-delay = \"1ms\"\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	holds := func(want string) {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%v: the file has\n%s\nnot\n%s", err, text, want)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--save", file, control, "batch-commands=0"}, "batch-commands"},
		{[]string{"--save", file, control, "no-such-key=5"}, "no-such-key"},
		{[]string{"--save", file, control, "batch-commands"}, "want KEY=VALUE"},
		{[]string{"--save", file + "2", control, "batch-commands=9"}, "--save: open " + file + "2"},
		{[]string{"--save", file, "--vm", "a", "weight=5"}, "--save is for SOCKET"},
		{[]string{"--save", file, control}, "want SOCKET and KEY=VALUE"},
	} {
		err := dispatch(append([]string{"set"}, tt.args...))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, not %q", tt.args, err, tt.want)
		}
		holds(before)
	}
	if err := dispatch([]string{"set", "--save", file, control, "batch-commands=9",
		"batch-delay=2ms"}); err != nil {
		t.Fatal(err)
	}
	after := "gpu = \"soft\" # here\n\n[set]\nbatch-delay = \"2ms\"\nbatch-commands = 9\n"
	holds(after)
	if _, err := configured(t, after); err != nil {
		t.Errorf("the VM's next start: %v", err)
	}
}
