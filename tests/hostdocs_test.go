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

// uncommented is a configuration with the options and sections that stand in comments.
func uncommented(text []byte) string {
	return regexp.MustCompile(`(?m)^# ((?:[a-z-]+ = |\[)[^#\n]*)(#.*)?$`).
		ReplaceAllString(string(text), "$1")
}

// TestConfigurations has the program take what the docs and the package have as configurations: a
// device process starts with each of a VM, and ends soon after SIGTERM.
func TestConfigurations(t *testing.T) {
	if testing.Short() {
		skip(t, "-short: bin/paracuda may be missing")
	}
	documented := codeBlock(t, "docs/host.md", `gpu = "auto"`)
	sample := uncommented(read(t, "packaging/vm.conf"))
	if strings.Count(sample, " = ") < 5 {
		t.Fatalf("the sample has few options: %s", sample)
	}
	// A group that this machine may not have, or not let us choose.
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
		t.Errorf("arbiter.toml: %+v, %v, from %s", table, err, text)
	}
}

// endAfterSIGTERM waits for a device's socket, and has the device end.
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
			t.Errorf("%s: it has ended: %v", name, err)
			return
		default:
		}
		if w.over() {
			t.Errorf("%s: no socket", name)
			break
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	switch in, err := endsIn(ended, 30*time.Second); {
	case !in:
		_ = c.Process.Kill()
		t.Errorf("%s: it has not ended after SIGTERM", name)
	case err != nil:
		t.Errorf("%s: after SIGTERM: %v", name, err)
	}
}
