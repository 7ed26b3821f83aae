// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLibvirtDomain checks the domain in docs/libvirt.md with libvirt's own schema. With a mistake
// it must be refused.
func TestLibvirtDomain(t *testing.T) {
	if _, err := exec.LookPath("virt-xml-validate"); err != nil {
		skip(t, "there is no virt-xml-validate: install libvirt-clients and libxml2-utils")
	}
	text := codeBlock(t, "docs/libvirt.md", "<domain type='kvm'")
	for _, tt := range []struct {
		name, text string
		exit       int
	}{
		{"as documented", text, 0},
		{"a mistake", strings.ReplaceAll(text, "queue=", "queues="), 3},
	} {
		file := filepath.Join(t.TempDir(), "domain.xml")
		if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		r := command(t, time.Minute, root, "virt-xml-validate", file, "domain")
		if r.exit != tt.exit {
			t.Errorf("%s: exit code %d, want %d: %s", tt.name, r.exit, tt.exit, r.stdout+r.stderr)
		}
	}
}
