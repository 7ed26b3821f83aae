// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// TestDemo does what `make demo` does after its downloads, with nothing but them, in each
// distribution's release of QEMU.
func TestDemo(t *testing.T) {
	needsQEMU(t)
	cache := demoCache(t)
	demo := func(t *testing.T, step, path string) result {
		return execute(t, within(4*time.Minute), root, "env", "-u", "PARACUDA_QEMU",
			"PATH="+path, "PARACUDA_CACHE="+cache, "scripts/demo", step)
	}
	if r := demo(t, "build", os.Getenv("PATH")); r.exit != 0 {
		t.Fatalf("demo build: %s", r.stderr)
	}
	// One path for all releases, so that KVM is tried once only.
	installed := filepath.Join(t.TempDir(), "qemu-system-x86_64")
	for _, version := range qemus {
		t.Run(version, func(t *testing.T) {
			script := "#!/bin/sh\nexec '" + qemuProgram(t, version) + "' \"$@\"\n"
			if err := os.WriteFile(installed, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			r := demo(t, "run", filepath.Dir(installed)+":"+os.Getenv("PATH"))
			if r.exit != 0 || !strings.Contains(r.stdout, " 0 wrong\n") ||
				!strings.Contains(r.stderr, "ran in QEMU "+version) {
				t.Errorf("exit code %d, want 0, \" 0 wrong\" and \"ran in QEMU %s\":%s%s", r.exit,
					version, tail(r.stdout), tail(r.stderr))
			}
		})
	}
}

// demoCache is a cache with only what the demo fetches, made of links to the tests' cache.
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
