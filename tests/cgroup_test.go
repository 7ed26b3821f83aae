// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBoundsOfGroups runs in a VM what the package cgroup tests with the kernel's control groups: a
// machine that runs tests may have none that bound anything, and skips it.
func TestBoundsOfGroups(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, whose guest's kernel has the controllers")
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
		t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
}
