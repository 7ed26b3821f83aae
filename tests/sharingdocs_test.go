// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSharingPage executes the code blocks of docs/sharing.md, with the test's own sockets and
// files.
func TestSharingPage(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	const page = "docs/sharing.md"
	dir := t.TempDir()
	socket, control := filepath.Join(dir, "arbiter.sock"), filepath.Join(dir, "control.sock")
	own := strings.NewReplacer(
		"/etc/paracuda/arbiter.toml", filepath.Join(dir, "arbiter.toml")+" --socket "+socket,
		"/run/vm1.sock", filepath.Join(dir, "vm1.sock")+" --gpu soft --control "+control+
			" --arbiter "+socket,
		"--vm training", "--vm training --arbiter "+socket, "/run/vm1-control.sock", control,
		"paracuda top ", paracuda+" top --once --arbiter "+socket+" ",
		"paracuda ", paracuda+" ")
	block := func(first string) string { return own.Replace(codeBlock(t, page, first)) }
	if err := os.WriteFile(filepath.Join(dir, "arbiter.toml"), []byte(codeBlock(t, page,
		"[default]")), 0o644); err != nil {
		t.Fatal(err)
	}
	arbiter := inBackground(t, "sh", "-c", "exec "+block("paracuda arbiter --config"))
	until(t, time.Minute, "the arbiter is there", func() bool { return exists(socket) })
	inBackground(t, "sh", "-c", "exec "+block("paracuda device --socket-path"))
	until(t, time.Minute, "the device is there", func() bool { return exists(control) })
	until(t, time.Minute, "the VM has its weight by the arbiter's file", func() bool {
		r := command(t, time.Minute, root, paracuda, "ps", "--arbiter", socket)
		return strings.Contains(r.stdout, " 300 ")
	})
	run := func(lines string) result {
		t.Helper()
		return command(t, time.Minute, root, "sh", "-ec", lines)
	}
	atArbiter, atDevice, _ := strings.Cut(block("paracuda set --vm training weight"), "\n")
	for _, lines := range []string{atArbiter, block("paracuda set --vm training memory-mode")} {
		if r := run(lines); r.exit != 0 {
			t.Errorf("%q: exit code %d:%s%s", lines, r.exit, tail(r.stderr), tail(arbiter.said()))
		}
	}
	// Refused, as the page says, since the configuration sets the VM's weight.
	if r := run(atDevice); r.exit != 1 || !strings.Contains(r.stderr, "configuration sets it") {
		t.Errorf("%q: exit code %d, %q, want 1 and \"configuration sets it\"", atDevice, r.exit,
			r.stderr)
	}
	if r := run(block("paracuda top")); r.exit != 0 || !strings.Contains(r.stdout, "\ntraining ") {
		t.Errorf("top: exit code %d, %q, want 0 and a line on VM training", r.exit, r.stdout)
	}
	r := command(t, time.Minute, root, paracuda, "ps", "--arbiter", socket)
	if !strings.Contains(r.stdout, " 50 ") {
		t.Errorf("ps doesn't show the weight that was set, 50: %q", r.stdout)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
