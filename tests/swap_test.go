// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"testing"

	"github.com/paracuda/paracuda/vm"
)

// swapping runs a program with a RAM disk as swap space. The kernel has the disk's driver built in,
// or as the module $1.
const swapping = `[ -e /dev/ram0 ] || insmod "$1" rd_nr=1 rd_size=65536 || exit
exec "$0" /dev/ram0`

// TestSwapped copies memory that the guest's kernel swaps out before the copy and during it.
func TestSwapped(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, f frontEnd) {
		module := "none"
		if f.name == "qemu" {
			module = guestModule(t, "kernel/drivers/block/brd.ko")
		}
		r := f.run(t, f.limit, "--", "sh", "-c", swapping, filepath.Join(programs, "swapped"),
			module)
		if r.exit != 0 || r.stdout != "swapped: exact\n" {
			t.Errorf("exit code %d, want 0 and \"swapped: exact\":%s%s", r.exit, tail(r.stdout),
				tail(r.stderr))
		}
	})
}

// guestModule is the file of a module of QEMU's default guest kernel. Host and guest have it at the
// same path.
func guestModule(t *testing.T, name string) string {
	t.Helper()
	a := vm.FindAssets()
	dir, err := a.KernelDir(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	release, err := a.Release(vm.QEMU, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "root/lib/modules", release, name)
}
