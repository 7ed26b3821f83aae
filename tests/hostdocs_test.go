// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/policy"
)

// uncommented is a configuration whose options and sections are no comments any more.
func uncommented(text []byte) string {
	return regexp.MustCompile(`(?m)^# ((?:[a-z-]+ = |\[)[^#\n]*)(#.*)?$`).
		ReplaceAllString(string(text), "$1")
}

// TestConfigurations: the configurations in the docs and in the package are valid. A device process
// starts with each of those for a VM, and ends after SIGTERM. The arbiter's is read.
func TestConfigurations(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	documented := codeBlock(t, "docs/host.md", `gpu = "auto"`)
	sample := uncommented(read(t, "packaging/vm.conf"))
	if strings.Count(sample, " = ") < 5 {
		t.Fatalf("packaging/vm.conf: want at least 5 options: %s", sample)
	}
	// This machine may not have the group, or not let us use it.
	sample = regexp.MustCompile(`(?m)^socket-group.*$`).ReplaceAllString(sample, "")
	for name, text := range map[string]string{"docs": documented, "sample": sample} {
		dir := t.TempDir()
		config, socket := filepath.Join(dir, "vm.conf"), filepath.Join(dir, "vm.sock")
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		c := exec.Command(paracuda, "device", "--config", config, "--socket-path", socket, "--gpu",
			"soft")
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		endAfterSIGTERM(t, name, c, socket, ended)
		if t.Failed() {
			t.Logf("%s: %s", name, said.String())
		}
	}
	arbiter := filepath.Join(t.TempDir(), "arbiter.toml")
	text := uncommented(read(t, "packaging/etc/arbiter.toml"))
	if err := os.WriteFile(arbiter, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	table, err := policy.ReadFile(arbiter)
	if err != nil || table.Default == nil || len(table.VMs) != 1 {
		t.Errorf("arbiter.toml: %+v, %v, want a default and one VM, from %s", table, err, text)
	}
}

// endAfterSIGTERM waits for a device process's socket, and ends the process.
func endAfterSIGTERM(
	t *testing.T, name string, c *exec.Cmd, socket string, ended <-chan error,
) {
	t.Helper()
	for w := patienceOf(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Errorf("%s: the device process has ended before it made its socket: %v", name, err)
			return
		default:
		}
		if w.over() {
			t.Errorf("%s: the device process made no socket %s", name, socket)
			break
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	switch in, err := endsIn(ended, 30*time.Second); {
	case !in:
		_ = c.Process.Kill()
		t.Errorf("%s: the device process hasn't ended after SIGTERM", name)
	case err != nil:
		t.Errorf("%s: after SIGTERM the device process ended with %v, want 0", name, err)
	}
}
