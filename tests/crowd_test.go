// SPDX-License-Identifier: Apache-2.0

package tests

import "testing"

// TestCrowdOfContexts is an attack on other VMs' memory: 48 processes, whose contexts would exhaust
// it. The VM's own bound stops them, the other VM's program has what it may have, and what a
// process had that was killed is there again.
func TestCrowdOfContexts(t *testing.T) {
	inEach(t, func(t *testing.T, vm frontEnd) {
		if setting("PARACUDA_GPU", "soft") != "soft" {
			skip(t, "a real GPU's contexts have another size")
		}
		program := build(t, "tests/guests/crowd.c", "-ldl")
		neighbour := make(chan result, 1)
		go func() {
			neighbour <- vm.run(t, 4*vm.limit, "--set", "memory=64M", "--", program, "1", "40")
		}()
		r := vm.run(t, 4*vm.limit, "--set", "memory=100M", "--set", "channels=48",
			"--set", "starts=0", "--", program, "48", "0")
		// 8 MiB a context.
		want := "12 got it, 36 had no memory, 0 something else\none more: 0\n"
		if r.exit != 0 || r.stdout != want {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
		n := <-neighbour
		want = "1 got it, 0 had no memory, 0 something else\none more: 0\n"
		if n.exit != 0 || n.stdout != want {
			t.Errorf("the other VM: exit code %d:%s%s", n.exit, tail(n.stdout), tail(n.stderr))
		}
	})
}
