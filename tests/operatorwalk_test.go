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

// TestOperatorsWalk goes an operator's way with the host package, with Debian 13's own systemd,
// libvirt, QEMU and Prometheus, and two VMs that have nothing but a driver and programs.
func TestOperatorsWalk(t *testing.T) {
	needsNight(t, "TestHostPackage, TestInstall, TestUnits and TestPrometheus look at its parts")
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
	needsQEMU(t)
	hostPackage(t)
	kernel, err := vm.FindAssets().KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	r := command(t, 20*time.Minute, root, "tests/walk/operator",
		filepath.Join(kernel, "vmlinuz"), gpuRoot(t))
	if r.exit != 0 || !strings.Contains(r.stdout, "\nwalk: all is well\n") {
		t.Errorf("exit code %d:\n%s\n%s", r.exit, r.stdout, tail(r.stderr))
	}
}
