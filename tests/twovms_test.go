// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// TestTwoVMsTrainTogether: two VMs, each with a GPU, add up their gradients over TCP. A line
// connects their network cards, which no other program of the host can reach.
func TestTwoVMsTrainTogether(t *testing.T) {
	needsQEMU(t)
	assets := vm.FindAssets()
	program, err := assets.QEMU()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := assets.KernelDir(vm.QEMU, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	both := make([]*background, 2)
	for rank := range both {
		carded := filepath.Join(dir, fmt.Sprint("qemu-", rank))
		text := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" -kernel "*)
	set -- "$@" -device virtio-net-pci,netdev=line,romfile=,mac=52:54:00:00:00:0%d \
		-netdev dgram,id=line,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s
esac
exec %s "$@"
`, rank, filepath.Join(dir, fmt.Sprint("end-", rank)),
			filepath.Join(dir, fmt.Sprint("end-", 1-rank)), program)
		if err := os.WriteFile(carded, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		const address = "10.0.0.%d"
		both[rank] = inBackground(t, "env", "PARACUDA_QEMU="+carded, paracuda, "run",
			"--vm", "qemu", "--gpu", "soft", "--mem", "512M", "--log-level", "error", "--",
			python(t), "tests/scripts/line.py", filepath.Join(kernel, "modules"),
			fmt.Sprintf(address, 1+rank), filepath.Join(programs, "overtcp"), fmt.Sprint(rank),
			fmt.Sprintf(address, 1), "7000")
	}
	want := string(read(t, "tests/programs/want/overtcp.out"))
	for rank, b := range both {
		until(t, 4*time.Minute, fmt.Sprint("VM ", rank, " ends"), func() bool {
			return awaits(b.done, 100*time.Millisecond)
		})
		if code := b.cmd.ProcessState.ExitCode(); code != 0 || b.said() != want {
			t.Errorf("VM %d: exit code %d, output%s\nwant\n%s", rank, code, tail(b.said()), want)
		}
	}
}
