// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
)

// TestQEMUThatListsNothing: a QEMU that prints its version, and fails to list its devices.
func TestQEMUThatListsNothing(t *testing.T) {
	dir := put(t, files{"qemu-system-x86_64": "#!/bin/sh\n" +
		"[ \"$1\" = --version ] || exit 4\necho QEMU emulator version 9.0.0\n"})
	t.Setenv("PATH", dir)
	all := checkQEMU(t.Context(), "qemu-system-x86_64")
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	want(t, all[1], Problem, "doesn't list its devices: exit status 4", installQEMU)
}

// TestNoArbiter: no arbiter runs at the usual places.
func TestNoArbiter(t *testing.T) {
	if _, err := os.Stat(client.HostPath); err == nil {
		t.Skipf("this host has an arbiter at %s", client.HostPath)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	want(t, checkArbiter(""), Warning, "none runs", startArbiter)
}

// TestTooManyVMs: only the first mostVMs are looked at, and a finding says so.
func TestTooManyVMs(t *testing.T) {
	some := files{}
	for i := range mostVMs + 1 {
		some[fmt.Sprintf("/etc/paracuda/vms/%d.conf", i)] = ""
	}
	all := healthy(put(t, some)).vmConfigs(func(string) error { return nil })
	if len(all) != mostVMs+1 {
		t.Fatalf("%d findings", len(all))
	}
	want(t, all[0], Warning, "looked at the first 1000", "ls "+vmFiles)
}

// TestOddNodes: one that can't be looked at, and one that this user may not open.
func TestOddNodes(t *testing.T) {
	h := healthy(put(t, files{"/dev/file": "", "/dev/nvidia0": ""}))
	want(t, h.node("/dev/file/nvidia0"), Problem, "not a directory", loadModules)
	if err := os.Chmod(h.path("/dev/nvidia0"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return // TestNodes has the case for an ordinary user
	}
	want(t, h.node("/dev/nvidia0"), Warning, "may not open /dev/nvidia0", "chmod 0666")
}

// TestSocketThatGoes: a socket that is gone when it is looked at.
func TestSocketThatGoes(t *testing.T) {
	h := healthy(t.TempDir())
	want(t, h.listener(h.path("/run/paracuda/a.sock")), Warning, "no such file",
		"ls -l /run/paracuda/a.sock")
}

// TestGroupThatDoesNotSay: a group that doesn't say how many processes it has is taken to be full.
func TestGroupThatDoesNotSay(t *testing.T) {
	h := healthy(put(t, files{cgroupFile: "0::/vms\n", cgroups + "/vms/pids.max": "4096\n"}))
	want(t, h.processesLimit(t.Context()), Warning, "/vms has room for 0 processes",
		"echo max >"+cgroups+"/vms/pids.max")
}
