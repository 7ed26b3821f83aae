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

// TestOperatorsWalk does what an operator does with both packages, with Debian 13's own systemd,
// libvirt, QEMU and Prometheus. The two VMs are Debian 13 with systemd, cloud-init, podman and
// Docker.
func TestOperatorsWalk(t *testing.T) {
	needsNight(t, "TestHostPackage, TestPackageIsConfigured and TestContainers look at its parts")
	canWalk(t)
	guestPackage(t)
	dir := t.TempDir()
	for _, file := range []string{filepath.Join(programs, "vectoradd"),
		build(t, "tests/guests/call.c", "-ldl")} {
		copyOf(t, file, dir)
	}
	walk(t, 2*time.Hour, "debian", dir)
}

// TestOperatorsShortWalk is the same with two VMs that have only the driver and programs.
func TestOperatorsShortWalk(t *testing.T) {
	needsNight(t, "TestHostPackage, TestInstall, TestUnits and TestPrometheus look at its parts")
	canWalk(t)
	needsQEMU(t)
	kernel, err := vm.FindAssets().KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	walk(t, 20*time.Minute, "bare", filepath.Join(kernel, "vmlinuz"), gpuRoot(t))
}

// canWalk skips a test on machines where the walk can't run, and builds the host package.
func canWalk(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		skip(t, "only root can boot a Debian in a container")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		skip(t, "no mmdebstrap here: run scripts/apt-deps")
	}
	alone := command(t, time.Minute, root, "sh", "-c",
		"unshare --mount --uts --ipc --net --pid --cgroup --fork true &&"+
			" grep -q ' cgroup2 ' /proc/mounts")
	if alone.exit != 0 {
		skip(t, "systemd can't run in a container here: no namespaces, or no control groups of "+
			"version 2: %s", alone.stderr)
	}
	hostPackage(t)
}

// walk runs tests/walk/operator with a kind of VMs.
func walk(t *testing.T, limit time.Duration, args ...string) {
	t.Helper()
	r := command(t, limit, root, append([]string{"tests/walk/operator"}, args...)...)
	if r.exit != 0 || !strings.Contains(r.stdout, "\nwalk: all is well\n") {
		t.Errorf("exit code %d, want 0 and \"walk: all is well\":\n%s\n%s", r.exit, r.stdout,
			tail(r.stderr))
	}
}
