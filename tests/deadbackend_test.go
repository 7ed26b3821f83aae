// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDeadBackEnd kills a VM's device process, and then does to the VM all that QEMU tells a back
// end about: it stops, goes on, reboots and resets. QEMU and the VM live on, in each release, and
// attach brings the GPU back.
func TestDeadBackEnd(t *testing.T) {
	needsReleases(t)
	image := gpuRootWith(t, fmt.Sprintf("answer_seconds=%d", answerSeconds()))
	inReleases(t, qemus, "11", func(t *testing.T, version string) {
		outliveBackEnds(t, version, image)
	})
}

func outliveBackEnds(t *testing.T, version, image string) {
	dir := t.TempDir()
	socket := func(name string) string { return filepath.Join(dir, name+"-"+version) }
	device := serve(t, socket("first"))
	g := startMachine(t, qemuProgram(t, version), socket("first"), "console", image)
	g.expect("guest: device", 1)
	g.usesGPUAgain(1)

	device.kill()
	g.qmp("stop")
	g.qmp("cont")
	g.tell("reboot") // by the guest's kernel
	g.expect("guest: up", 2)
	g.qmp("system_reset")
	g.expect("guest: up", 3)
	g.lives()

	device = serve(t, socket("second"))
	// attach unplugs the first device.
	g.paracuda("attach", "--qmp", g.socket, "--device", socket("second"))
	g.expect("guest: device", 2)
	g.usesGPUAgain(2)
	device.kill()
	g.paracuda("detach", "--qmp", g.socket)
	g.expect("guest: no device", 1)
	g.lives()

	device = serve(t, socket("third"))
	g.paracuda("attach", "--qmp", g.socket, "--device", socket("third"))
	g.expect("guest: device", 3)
	g.usesGPUAgain(3)
	device.kill()
	g.tell("off")
	switch in, err := endsIn(g.gone, 2*time.Minute); {
	case !in:
		t.Error("QEMU didn't end at the guest's power-off")
	case err != nil:
		t.Errorf("QEMU ended at the guest's power-off: %v", err)
	}
}

// lives checks that the VM runs.
func (g *staying) lives() {
	g.t.Helper()
	if status := g.qmp("query-status"); !strings.Contains(status, `"running": true`) {
		g.t.Errorf("the VM's status is %s", status)
	}
}

// paracuda runs a command of Paracuda's, which must succeed.
func (g *staying) paracuda(args ...string) {
	g.t.Helper()
	r := command(g.t, 2*time.Minute, root, append([]string{paracuda}, args...)...)
	if r.exit != 0 {
		g.t.Fatalf("%s: %s", args[0], r.stderr)
	}
}
