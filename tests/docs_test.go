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
		t.Fatalf("found %d keys only", len(keys))
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
	for _, name := range []string{"run", "device", "arbiter", "attach", "detach", "set", "stats",
		"top", "ps", "probe", "doctor"} {
		r := command(t, time.Minute, root, paracuda, name, "--help")
		options := regexp.MustCompile(`(?m)^ {6}--([a-z-]+)`).FindAllStringSubmatch(r.stdout, -1)
		if r.exit != 0 || len(options) == 0 {
			t.Errorf("%s --help: exit code %d, %d options", name, r.exit, len(options))
		}
		for _, option := range options {
			if !strings.Contains(manual, "`--"+option[1]) {
				t.Errorf("reference.md doesn't explain --%s of %s", option[1], name)
			}
		}
	}
}

// TestPages has mandoc read the manual pages that are written by hand, as TestManualIsWellFormed of
// cmd/paracuda has it read the others.
func TestPages(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		skip(t, "no mandoc here: run scripts/apt-deps")
	}
	pages := sources(t, "*.1", "*.8")
	if len(pages) < 3 {
		t.Fatalf("found %q", pages)
	}
	r := command(t, time.Minute, root, append([]string{"mandoc", "-T", "lint"}, pages...)...)
	if r.exit != 0 || r.stdout+r.stderr != "" {
		t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
}

// TestProtocolVersion holds the number in the protocol's title and in the changes against the
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

// TestEvidence looks for the tests that documents name, and for the files they link to.
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

// deviceType is what the device calls itself, in its description and its capabilities.
const deviceType = "gpu"

// TestDescription reads what managers of VMs read of the device: it must be like
// what the program says of itself.
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
		t.Errorf("it says %+v", described)
	}
}

// TestReadmeIsRecoverable: a VM started as the README says has its device where `paracuda attach`
// looks for it.
func TestReadmeIsRecoverable(t *testing.T) {
	// As the shell reads it, once the page's own indentation is off.
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
