// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/gpubackend/device/settings"
)

// configured returns the options of paracuda device for a configuration file and a command line.
func configured(t *testing.T, text string, args ...string) (*deviceOptions, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "vm.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &deviceOptions{settings: settings.Default(), given: map[string]bool{}}
	c := &cobra.Command{Use: "device"}
	o.options(c)
	o.configOption(c)
	o.logs.Add(c, "info")
	sharingFlags(c, &o.arbiter, &o.name, "")
	gpuOption(c, &o.gpu)
	children.SandboxOption(c, &o.sandbox)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	f := config{flags: c.Flags(), settings: &o.settings, given: o.given}
	return o, f.read(file)
}

// TestConfig: the file's options and settings hold, unless the command line has others.
func TestConfig(t *testing.T) {
	o, err := configured(t, `
gpu = "soft"
name = "vm-1"
socket-mode = "0660"
socket-group = "kvm"
sandbox = false
log-level = "debug"
pass-env = ["A", "B"]

[set]
weight = 300
memory = "8G"
graph-replay = false
batch-commands = 9
`, "--log-level", "error", "--set", "batch-commands=7")
	if err != nil {
		t.Fatal(err)
	}
	if o.gpu != "soft" || o.name != "vm-1" || o.access != (socketAccess{"kvm", 0o660}) ||
		bool(o.sandbox) ||
		o.logs.Level != "error" || !slices.Equal(o.passEnv, []string{"A", "B"}) {
		t.Errorf("%+v", o)
	}
	s := o.settings
	if space, policy := s.Build(); s.Time.Weight != 300 || s.Memory != 8<<30 ||
		policy.GraphReplay || space.BatchCommands != 7 {
		t.Errorf("%+v", s)
	}
}

func TestConfigMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"gpu = \"soft\"\ncolour = 1":      "line 2: colour: no such option",
		"fd = 3":                          "line 1: fd: no such option",
		"help = true":                     "line 1: help: no such option",
		"set = 3":                         "line 1: set: want a section [set]",
		"\n\n[set]\nweight = 0":           "line 4: bad policy weight=0",
		"[set]\n\ncolour = 1":             `line 3: bad policy "colour": unknown key`,
		"[set]\nweight = 1.5":             "line 2: set.weight: want a text, a number",
		"[set]\nweight = [1, 2]":          "line 2: set.weight: want one value",
		"[vm]\nweight = 1":                "vm: no such option",
		"\nsocket-mode = \"rw\"":          `line 2: socket-mode = "rw": want an octal mode`,
		"gpu = ":                          "line 1: ",
		"sandbox = \"maybe\"":             "want on or off",
		"pass-env = [[\"a\", \"b\"]]":     "want a list of texts",
		strings.Repeat("#", maxConfig+10): "more than 1048576 bytes",
	} {
		_, err := configured(t, text)
		if err == nil || !oneLineWith(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	code, _, said := ranBy(t, "device", "--config", "/nowhere/c", "--socket-path", "s")
	if code != 1 || said != "paracuda: --config: open /nowhere/c: no such file or directory\n" {
		t.Errorf("no file: exit code %d, %q", code, said)
	}
}
