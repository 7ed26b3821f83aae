// SPDX-License-Identifier: Apache-2.0

package tests

import "testing"

// TestCrowdOfContexts attacks the memory of other VMs: 48 processes make contexts, which would
// exhaust it. The VM's own bound stops them, and the other VM's program gets what it may have. When
// one of the processes is killed, another one can have its memory.
func TestCrowdOfContexts(t *testing.T) {
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
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
		// A context takes 8 MiB of the VM's 100.
		want := "12 got it, 36 had no memory, 0 something else\none more: 0\n"
		if r.exit != 0 || r.stdout != want {
			t.Errorf("exit code %d, output%s\nwant\n%s%s", r.exit, tail(r.stdout), want,
				tail(r.stderr))
		}
		n := <-neighbour
		want = "1 got it, 0 had no memory, 0 something else\none more: 0\n"
		if n.exit != 0 || n.stdout != want {
			t.Errorf("the other VM: exit code %d, output%s\nwant\n%s%s", n.exit, tail(n.stdout),
				want, tail(n.stderr))
		}
	})
}
