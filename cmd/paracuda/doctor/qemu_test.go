// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"path/filepath"
	"strings"
	"testing"
)

// fakeQEMU is a program that prints a release of QEMU as its own, and lists devices.
func fakeQEMU(release string, devices ...string) string {
	script := "#!/bin/sh\ncase \"$*\" in\n--version) echo 'QEMU emulator version " + release +
		"' ;;\n'-device help') "
	for _, d := range devices {
		script += "echo 'name \"" + d + "\", bus PCI'; "
	}
	return script + ";;\nesac\n"
}

// TestQEMU: none in PATH, one too old, one without the device, and good ones.
func TestQEMU(t *testing.T) {
	const fs, generic = "vhost-user-fs-pci", "vhost-user-test-device-pci"
	for _, tt := range []struct {
		name, program string
		n             int // findings
		level         Level
		found         string // what the last one says
	}{
		{"none", "", 1, Problem, "no program qemu-system-x86_64 here"},
		{"too old", fakeQEMU("7.1.0", fs), 1, Problem, "QEMU 7.1.0 is too old"},
		{"another", "#!/bin/sh\necho 'not QEMU'\n", 1, Problem, "not QEMU"},
		{"broken", "#!/bin/sh\nexit 3\n", 1, Problem, "exit status 3"},
		{"without devices", fakeQEMU("9.2.0", "virtio-net-pci"), 2, Problem,
			"has no vhost-user-fs-pci"},
		{"good", fakeQEMU("7.2.0", fs), 2, OK, "and not " + generic},
		{"new", fakeQEMU("11.1.0", fs, generic), 2, OK, fs + " and " + generic},
	} {
		t.Run(tt.name, func(t *testing.T) {
			programs := files{"keep": ""}
			if tt.program != "" {
				programs["qemu-system-x86_64"] = tt.program
			}
			dir := put(t, programs)
			t.Setenv("PATH", dir)
			all := checkQEMU(t.Context(), "qemu-system-x86_64")
			if len(all) != tt.n {
				t.Fatalf("%+v", all)
			}
			fix := ""
			if tt.level != OK {
				fix = installQEMU
			}
			want(t, all[len(all)-1], tt.level, tt.found, fix)
			if tt.n == 2 && !strings.Contains(all[0].Found,
				filepath.Join(dir, "qemu-system-x86_64")) {
				t.Errorf("%+v", all[0])
			}
		})
	}
}
