// SPDX-License-Identifier: Apache-2.0

package tests

import "testing"

// TestCUPTI runs a client of the part of CUPTI that the guests' libparacuda-cupti.so has: what PyTorch's profiler uses.
func TestCUPTI(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/activity.c", "-ldl")
		r := vm.run(t, vm.limit, "--", "env", "LD_PRELOAD=libparacuda-cupti.so", program)
		want := "started\nkernels\ncopies\nfills\ngraphs\na clock of the client's\nbuffers\nended\n"
		if r.exit != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("exit code %d, output %q%s", r.exit, r.stdout, tail(r.stderr))
		}
	})
}
