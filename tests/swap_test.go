// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"testing"
)

// swapping runs a program with a RAM disk for its swap space, which the kernel has built in, or as the module $1.
const swapping = `[ -e /dev/ram0 ] || insmod "$1" rd_nr=1 rd_size=65536 || exit; exec "$0" /dev/ram0`

// TestSwapped copies memory that the guest's kernel swaps out before and while it is copied.
func TestSwapped(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		module := "none"
		if vm.name == "qemu" {
			module = guestModule(t, "kernel/drivers/block/brd.ko")
		}
		r := vm.run(t, vm.limit, "--", "sh", "-c", swapping, filepath.Join(programs, "swapped"), module)
		if r.exit != 0 || r.stdout != "swapped: exact\n" {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}

// guestModule is a module of the kernel that guests of QEMU's run by default, as the host sees it and the guest does.
func guestModule(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cache(), "linux-6.1/root/lib/modules/*", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: found %q, %v", name, found, err)
	}
	return found[0]
}
