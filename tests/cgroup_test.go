// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBoundsOfGroups runs the cgroup package's TestKernel in a VM. The machine that runs the tests
// may have no control groups with limits: there the package skips that test.
func TestBoundsOfGroups(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, and only its guest's kernel has the controllers")
	}
	program := filepath.Join(logDir(t), "cgroup.test")
	if r := command(t, 5*time.Minute, root, "go", "test", "-c", "-o", program,
		"./gpubackend/cgroup"); r.exit != 0 {
		t.Fatalf("build it:%s", tail(r.stderr))
	}
	vm := frontEnds[1]
	r := vm.run(t, vm.limit, "--", "sh", "-ec", `mount -t cgroup2 groups /sys/fs/cgroup
		exec "$0" -test.run '^TestKernel$' -test.v`, program)
	if r.exit != 0 || !strings.Contains(r.stdout, "--- PASS: TestKernel ") {
		t.Errorf("exit code %d, want 0 and that TestKernel passed:%s%s", r.exit, tail(r.stdout),
			tail(r.stderr))
	}
}
