// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

// TestKeeperBehindQEMU kills a VM's device process, in each release of QEMU. The keeper starts
// another one, and programs that start then use the GPU, also after a reset and a pause. QEMU
// notices nothing.
func TestKeeperBehindQEMU(t *testing.T) {
	needsReleases(t)
	image := gpuRoot(t)
	inReleases(t, qemus, "10.0", func(t *testing.T, version string) {
		outliveDevices(t, version, image)
	})
}

func outliveDevices(t *testing.T, version, image string) {
	socket := filepath.Join(t.TempDir(), "kept-"+version)
	device := serve(t, socket, "--keeper", "on")
	g := startMachine(t, qemuProgram(t, version), socket, "console", image)
	g.expect("guest: device", 1)
	g.usesGPUAgain(1)

	device.killDevice(t)
	g.usesGPUAgain(2)
	g.qmp("system_reset")
	g.expect("guest: device", 2)
	g.usesGPUAgain(3)
	device.killDevice(t)
	g.qmp("system_reset") // it is the first thing that the next device process is asked
	g.expect("guest: device", 3)
	g.usesGPUAgain(4)
	device.killDevice(t)
	g.qmp("stop")
	g.qmp("cont")
	g.usesGPUAgain(5)
	g.lives()
	if n := strings.Count(device.said(t), "goes on where it stood"); n != 3 {
		t.Errorf("the keeper has started a device process %d times, want 3:\n%s", n,
			tail(device.said(t)))
	}
}

// killDevice kills the device process that a keeper has started.
func (d *served) killDevice(t *testing.T) {
	t.Helper()
	for _, pid := range leaks.Children(d.cmd.Process.Pid) {
		if !slices.Contains(commandOf(pid), "device") {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("the keeper has no device process:\n%s", tail(d.said(t)))
}
