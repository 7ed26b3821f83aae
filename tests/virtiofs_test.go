// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// besideScript uses the GPU and a file system that virtiofsd serves, one within the other, and says
// which drivers have the devices of a file system's kind (26).
const besideScript = `cd "$1" && cp "$0" program && ` +
	`./program cuCtxGetCurrent >/dev/null && cmp "$0" program && ` +
	`grep -c " $1 virtiofs " /proc/mounts && for d in /sys/bus/virtio/devices/*; do ` +
	`[ "$(cat $d/device)" != 0x001a ] || basename "$(readlink $d/driver)"; done | sort | uniq -c`

var besideWant = regexp.MustCompile(`^1\n +1 paracuda\n +[1-9] virtiofs\n$`)

// TestVirtiofsBeside: a real virtiofsd's file system and the GPU, behind devices of one kind, are
// used in one VM.
func TestVirtiofsBeside(t *testing.T) {
	needsQEMU(t)
	program := build(t, "tests/guests/call.c", "-ldl")
	for _, kernel := range []string{"6.1", "6.12"} {
		t.Run(kernel, func(t *testing.T) {
			dir := t.TempDir()
			vm := frontEnds[slices.IndexFunc(frontEnds, frontEnd.isQEMU)]
			r := vm.run(t, vm.limit, "--kernel", kernel, "--write", dir, "--",
				"sh", "-c", besideScript, program, dir)
			if r.exit != 0 || !besideWant.MatchString(r.stdout) {
				t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
			}
			if _, err := os.Stat(filepath.Join(dir, "program")); err != nil {
				t.Error(err)
			}
		})
	}
}

func (f frontEnd) isQEMU() bool { return f.name == "qemu" }
