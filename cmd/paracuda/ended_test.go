// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/wire"
)

// TestKilledWorkerIsAWarning: the VM's log says that a worker was killed, at a level that paracuda
// run shows.
func TestKilledWorkerIsAWarning(t *testing.T) {
	v := newKeptVM(t)
	v.must(wire.ControlOpen, 0, 0)
	all := v.workers()
	if len(all) != 1 {
		t.Fatalf("the workers are %v\n%s", all, v.log)
	}
	if err := unix.Kill(all[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, "the log has it", func() bool {
		for line := range strings.Lines(v.log.String()) {
			if strings.Contains(line, "worker ended") {
				if !strings.Contains(line, "warning") || !strings.Contains(line, "signal: killed") {
					t.Fatalf("the log has it so: %s", line)
				}
				return true
			}
		}
		return false
	})
	v.must(wire.ControlClose, 0, 0)
	v.end()
}
