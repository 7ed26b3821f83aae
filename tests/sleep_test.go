// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGuestSleeps has a VM suspend itself to RAM, and to disk, though it has no disk. While a
// program has the GPU that is refused, and other programs still use the GPU. Without one, programs
// use the GPU when the VM is awake again.
func TestGuestSleeps(t *testing.T) {
	needsReleases(t)
	const version = "10.0"
	socket := filepath.Join(t.TempDir(), "sleep")
	serve(t, socket)
	g := startMachine(t, qemuProgram(t, version), socket, "sleep", gpuRoot(t))
	g.expect("guest: device", 1)
	g.usesGPUAgain(1)

	g.tell("hold")
	g.expect("holding", 1)
	for i, to := range []string{"mem", "disk"} {
		g.tell(to)
		g.expect("guest: suspended to "+to+": Device or resource busy", 1)
		g.expect("not suspending: programs use the GPU", 1+i)
	}
	g.usesGPUAgain(2)
	g.tell("end")
	g.expect("guest: holder ended", 1)

	g.tell("mem")
	until(t, 2*time.Minute, "a word on the console wakes the VM", func() bool {
		g.tell("x")             // the guest does nothing for it
		time.Sleep(time.Second) // don't fill the console with words
		text, _ := os.ReadFile(g.console)
		return strings.Contains(string(text), "guest: suspended to mem: Success")
	})
	g.usesGPUAgain(3)

	g.tell("disk") // the kernel stops the driver before it finds no disk
	g.expect("guest: suspended to disk: No such device", 1)
	g.usesGPUAgain(4)
	g.lives()
}
