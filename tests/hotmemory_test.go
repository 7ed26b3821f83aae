// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/qemu"
)

// copier runs a program that copies, again and again. After each run it prints the exit code, the
// VM's memory in MiB, and how many pages of plugged-in memory were in use at most. Programs get
// such pages first.
const copier = `
used() {
	awk '/^Node/ { zone = $4 } zone == "Movable" && $1 == "nr_free_pages" { free = $2 }
		zone == "Movable" && $1 == "managed" { managed = $2 }
		END { print managed - free }' /proc/zoneinfo
}
echo up
until [ -e /dev/paracuda ]; do sleep 0.2; done
while :; do
	"$0" >/dev/null & most=0
	while kill -0 $! 2>/dev/null; do
		now=$(used)
		[ "$now" -le $most ] || most=$now
		sleep 0.1
	done
	wait $!; code=$?
	echo "$code $(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo) $most"
done`

// copies is a line of copier's.
type copies struct{ code, total, used int }

func (c *copies) read(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &c.code, &c.total, &c.used); err != nil || c.code != 0 {
		t.Fatalf("the VM said %q, want the exit code 0 and two numbers: %v",
			strings.TrimSpace(line), err)
	}
}

// unplugMemory tries again where a slow guest takes longer than UnplugMemory waits.
func unplugMemory(t *testing.T, qmp, id string) {
	t.Helper()
	var err error
	for range 4 {
		if err = qemu.UnplugMemory(t.Context(), qemu.QMP(qmp), id); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestMemoryIsPlugged plugs memory into a VM and takes it out while a program copies. Every copy
// must be right.
func TestMemoryIsPlugged(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, which alone can hot-plug")
	}
	const size = 256 << 20
	qmp, lines := runningVM(t, copier, filepath.Join(programs, "pageable"), 1<<30)
	expectLine(t, lines, "up")
	socket := filepath.Join(t.TempDir(), "device")
	serve(t, socket)
	if r := command(t, 2*time.Minute, root, paracuda, "attach", "--qmp", qmp, "--device",
		socket); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	var before, c copies
	before.read(t, lines)
	for range times(1, 2) {
		if err := qemu.PlugMemory(t.Context(), qemu.QMP(qmp), "dimm0", size); err != nil {
			t.Fatal(err)
		}
		for c = before; c.total < before.total+size>>20/2; {
			c.read(t, lines)
		}
		used := 0
		for range 3 {
			c.read(t, lines)
			used = max(used, c.used)
		}
		if used < 1000 {
			t.Errorf("%d pages of the plugged-in memory were in use, want at least 1000", used)
		}
		unplugMemory(t, qmp, "dimm0")
		for c.total > before.total+16 {
			c.read(t, lines)
		}
		for range 2 {
			c.read(t, lines)
		}
	}
}
