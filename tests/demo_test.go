// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// TestDemo does what `make demo` does once all that it fetches is there, and with no more than
// that: in the distribution's own QEMU, or in Debian 12's where none is installed.
func TestDemo(t *testing.T) {
	needsQEMU(t)
	cache, path, report := demoCache(t), os.Getenv("PATH"), "ran in QEMU "
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		path = filepath.Dir(qemuProgram(t, "7.2")) + ":" + path
		report += "7.2"
	}
	demo := func(step string) result {
		return execute(t, within(4*time.Minute), root, "env", "-u", "PARACUDA_QEMU",
			"PATH="+path, "PARACUDA_CACHE="+cache, "scripts/demo", step)
	}
	if r := demo("build"); r.exit != 0 {
		t.Fatalf("demo build: %s", r.stderr)
	}
	r := demo("run")
	if r.exit != 0 || !strings.Contains(r.stdout, " 0 wrong\n") ||
		!strings.Contains(r.stderr, report) {
		t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
}

// demoCache is a cache that has the demo's parts alone, made of those that the tests have.
func demoCache(t *testing.T) string {
	t.Helper()
	cache, all := t.TempDir(), vm.FindAssets().Cache
	for demos, tests := range map[string]string{
		"cuda-12.4": "cuda-12.4", "linux-6.1": "linux-6.1", "virtiofsd": "qemu-11",
	} {
		if err := os.Symlink(filepath.Join(all, tests), filepath.Join(cache, demos)); err != nil {
			t.Fatal(err)
		}
	}
	return cache
}
