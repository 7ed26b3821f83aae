// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVMPackage unpacks the package that has what paracuda run needs. Then it runs a program in
// both kinds of VMs, outside the source tree, with paracuda and QEMU in PATH.
func TestVMPackage(t *testing.T) {
	boots(t)
	for _, need := range []string{"dpkg-deb", "objdump", "modprobe"} {
		if _, err := exec.LookPath(need); err != nil {
			skip(t, "the package is built with %s: %v", need, err)
		}
	}
	r := command(t, 5*time.Minute, root, "packaging/vm/build")
	_, file, made := strings.Cut(strings.TrimSpace(r.stderr), "made build/")
	if r.exit != 0 || !made {
		t.Fatalf("packaging/vm/build: exit code %d:%s", r.exit, tail(r.stderr))
	}
	file = filepath.Join(root, "build", file)
	checkPackage(t, file)
	p := newPlace(t, filepath.Join(programs, "vectoradd"))
	to := t.TempDir()
	if r := p.sh("dpkg-deb -x "+file+" "+to+"; mkdir "+to+"/usr/bin; cp "+paracuda+" "+to+
		"/usr/bin; mkdir "+to+"/qemu; ln -s "+cached("qemu-11/qemu-system-x86_64")+" "+to+"/qemu",
		""); r.exit != 0 {
		t.Fatal(r.stderr)
	}
	for _, kind := range strings.Split(setting("PARACUDA_VM", "uml,qemu"), ",") {
		r := p.sh("paracuda run --vm "+kind+" --gpu soft -- ./vectoradd",
			to+"/usr/bin:"+to+"/qemu:")
		if r.exit != 0 || r.stdout != wellFormed(t).stdout {
			t.Errorf("%s: exit code %d, %q, want the program's output:%s", kind, r.exit, r.stdout,
				tail(r.stderr))
		}
	}
}
