// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestPs asks where there is no arbiter, and then an arbiter with a VM.
func TestPs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arbiter")
	if code, _, said := ranBy(t, "ps", "--arbiter", path); code != 1 ||
		!strings.Contains(said, "start one with paracuda arbiter") {
		t.Errorf("without an arbiter: exit code %d, %q", code, said)
	}
	p := startArbiter(t, path)
	newMember(t, p.path, "training")
	within(t, "the VM is listed", func() bool {
		_, out, _ := ranBy(t, "ps", "--arbiter", path)
		return strings.Contains(out, "\ntraining  soft ")
	})
}
