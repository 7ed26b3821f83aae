// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/settings"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/qemu"
)

// TestReferenceIsComplete looks for every key of --set and every counter in the manual.
func TestReferenceIsComplete(t *testing.T) {
	manual := string(read(t, "docs/reference.md"))
	keys := settings.Keys()
	if len(keys) < 5 {
		t.Fatalf("found %d keys of --set, want at least 5", len(keys))
	}
	for _, key := range keys {
		if text := key.Name + "=" + key.Value; !strings.Contains(manual, "`"+text+"`") {
			t.Errorf("reference.md doesn't explain --set %s", text)
		}
	}
	for _, c := range handover.Described {
		if !strings.Contains(manual, "`"+c.Name+"`") {
			t.Errorf("reference.md doesn't explain the counter %s", c.Name)
		}
	}
}

// TestOptionsAreExplained looks for every option of every command in the manual.
func TestOptionsAreExplained(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	manual := string(read(t, "docs/reference.md"))
	help := command(t, time.Minute, root, paracuda, "--help").stdout
	commands := regexp.MustCompile(`(?m)^  ([a-z]+) +\w`).FindAllStringSubmatch(help, -1)
	if len(commands) < 16 {
		t.Fatalf("paracuda --help: %d commands, want at least 16:%s", len(commands), tail(help))
	}
	for _, c := range commands {
		name := c[1]
		r := command(t, time.Minute, root, paracuda, name, "--help")
		options := regexp.MustCompile(`(?m)^ {6}--([a-z-]+)`).FindAllStringSubmatch(r.stdout, -1)
		none := name == "completion" || name == "version" // that is, only --help
		if r.exit != 0 || (len(options) == 0) != none {
			t.Errorf("%s --help: exit code %d, %d options", name, r.exit, len(options))
		}
		for _, option := range options {
			if !strings.Contains(manual, "`--"+option[1]) {
				t.Errorf("reference.md doesn't explain --%s of %s", option[1], name)
			}
		}
	}
}

// TestPages checks the manual pages that are written by hand with mandoc. TestManualIsWellFormed of
// cmd/paracuda checks the others.
func TestPages(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		skip(t, "no mandoc here: run scripts/apt-deps")
	}
	pages := sources(t, "*.1", "*.8")
	if len(pages) < 3 {
		t.Fatalf("found the pages %q, want at least 3", pages)
	}
	r := command(t, time.Minute, root, append([]string{"mandoc", "-T", "lint"}, pages...)...)
	if r.exit != 0 || r.stdout+r.stderr != "" {
		t.Errorf("mandoc -T lint: exit code %d, want 0 and no message:%s%s", r.exit,
			tail(r.stdout), tail(r.stderr))
	}
}

// TestProtocolVersion compares the version in the protocol's title and in the change log with the
// code's.
func TestProtocolVersion(t *testing.T) {
	for file, want := range map[string]string{
		"docs/protocol.md": "# The Paracuda device protocol, version %d\n",
		"CHANGELOG.md":     "- Protocol version %d (",
	} {
		if want := fmt.Sprintf(want, wire.Version); !strings.Contains(string(read(t, file)), want) {
			t.Errorf("%s doesn't say %q", file, want)
		}
	}
}

// TestEvidence: the tests that documents name exist, and so do the files that they link to.
func TestEvidence(t *testing.T) {
	declared := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, file := range sources(t, "*_test.go") {
		for _, name := range test.FindAllSubmatch(read(t, file), -1) {
			declared[string(name[1])] = true
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	link := regexp.MustCompile(`\]\(([^)#:]+)[)#]`)
	for _, file := range sources(t, "*.md") {
		text := read(t, file)
		for _, name := range named.FindAll(text, -1) {
			if !declared[string(name)] {
				t.Errorf("%s names %s, which doesn't exist", file, name)
			}
		}
		for _, to := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(file),
				string(to[1]))); err != nil {
				t.Errorf("%s links to %s: %v", file, to[1], err)
			}
		}
	}
}

// deviceType is the device's type, in its description and in its capabilities.
const deviceType = "gpu"

// TestDescription checks the description of the device for managers of VMs. TestCapabilities checks
// what the program itself prints.
func TestDescription(t *testing.T) {
	var described struct {
		Description, Type, Binary string
		Features                  []string
	}
	if err := json.Unmarshal(read(t, "qemu/90-paracuda.json.in"), &described); err != nil {
		t.Fatal(err)
	}
	if described.Description == "" || described.Type != deviceType ||
		described.Binary != "@LIBEXECDIR@/paracuda-device" {
		t.Errorf("90-paracuda.json.in says %+v, want a description, the type %q and our program",
			described, deviceType)
	}
}

// TestReadmeIsRecoverable: a VM that is started as README.md says has its device where
// `paracuda attach` looks for it.
func TestReadmeIsRecoverable(t *testing.T) {
	// Join the lines as the shell does, without the page's own indentation.
	shell := strings.NewReplacer(" \\\n      ", " ", ",\\\n    ", ",")
	readme := shell.Replace(string(read(t, "README.md")))
	for _, want := range []string{
		strings.Join(qemu.Device{Socket: "/run/gpu.sock", Queues: 17}.Args(), " "),
		"-device pcie-root-port,id=" + qemu.Port + ",", "-qmp unix:/run/vm.qmp,server=on,wait=off",
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md lacks %s", want)
		}
	}
}
