// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// noGPU is the page on machines without a GPU.
const noGPU = "docs/no-gpu.md"

// makeBundle makes the bundle once for all tests.
var makeBundle = sync.OnceValue(func() result {
	out, err := exec.Command(filepath.Join(root, "scripts/soft-bundle")).CombinedOutput()
	r := result{stderr: string(out)}
	if err != nil {
		r.exit = 1
	}
	return r
})

// softBundle makes the bundle and returns its archive.
func softBundle(t *testing.T) string {
	t.Helper()
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out, which the bundle runs in")
	}
	r := makeBundle()
	file, made := strings.CutPrefix(strings.TrimSpace(r.stderr), "made ")
	if r.exit != 0 || !made {
		t.Fatalf("scripts/soft-bundle: exit code %d:%s", r.exit, tail(r.stderr))
	}
	return filepath.Join(root, file)
}

// place is a user's folder, with the bundle and a project, outside the source tree.
type place struct {
	t   *testing.T
	dir string
}

func newPlace(t *testing.T, files ...string) *place {
	t.Helper()
	p := &place{t, filepath.Join(t.TempDir(), "a project")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if r := command(t, time.Minute, p.dir, "cp", file, "."); r.exit != 0 {
			t.Fatal(r.stderr)
		}
	}
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// sh executes lines there, with an empty environment but for HOME and PATH.
func (p *place) sh(lines, path string) result {
	p.t.Helper()
	return command(p.t, 3*time.Minute, p.dir, "env", "-i", "HOME="+p.t.TempDir(),
		"PATH="+path+"/usr/bin:/bin", "sh", "-ec", lines)
}

// TestSoftBundle does what docs/no-gpu.md says about the bundle: it unpacks it, and runs programs
// and a project's tests, which pass and then fail.
func TestSoftBundle(t *testing.T) {
	archive := softBundle(t)
	p := newPlace(t, archive, filepath.Join(programs, "vectoradd"),
		filepath.Join(root, "tests/programs/vectoradd.cu"),
		filepath.Join(root, "tests/programs/check.h"))
	want := wellFormed(t).stdout
	if r := p.sh(codeBlock(t, noGPU, "tar -xf paracuda-soft"), ""); r.exit != 0 ||
		r.stdout != want {
		t.Fatalf("exit code %d, %q, want %q:%s", r.exit, r.stdout, want, tail(r.stderr))
	}
	r := p.sh(codeBlock(t, noGPU, "mkdir -p out"), "")
	if log, err := os.ReadFile(filepath.Join(p.dir, "out/log")); r.exit != 0 || err != nil ||
		string(log) != want {
		t.Errorf("exit code %d, %v, it wrote %q, want %q:%s", r.exit, err, log, want,
			tail(r.stderr))
	}
	p.installed(want)
	compiler := cached("cuda-12.4")
	if r := p.sh("rm vectoradd\n"+codeBlock(t, noGPU, "nvcc -cudart static"),
		compiler+":"); r.exit != 0 {
		t.Fatalf("nvcc: exit code %d:%s", r.exit, tail(r.stderr))
	}
	p.write("Makefile", codeBlock(t, noGPU, "check:"))
	p.write("expected", want)
	check := codeBlock(t, noGPU, "paracuda-soft-*/run make")
	if r := p.sh(check, ""); r.exit != 0 {
		t.Errorf("make check: exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
	}
	p.write("expected", "else\n")
	if r := p.sh(check, ""); r.exit != 2 || !strings.Contains(r.stdout, "< else") &&
		!strings.Contains(r.stdout, "> else") {
		t.Errorf("make check of a failure: exit code %d, want 2 and the difference:%s%s", r.exit,
			tail(r.stdout), tail(r.stderr))
	}
}

// installed unpacks the bundle where an installed paracuda looks for it, and runs a program with
// that.
func (p *place) installed(want string) {
	p.t.Helper()
	prefix := p.t.TempDir()
	unpack := strings.ReplaceAll(codeBlock(p.t, noGPU, "mkdir -p /usr/local"), "/usr/local", prefix)
	r := p.sh(unpack+"mkdir "+prefix+"/bin; cp "+paracuda+" "+prefix+"/bin\n"+
		prefix+"/bin/paracuda run --vm uml --gpu soft -- ./vectoradd", "")
	if r.exit != 0 || r.stdout != want {
		p.t.Errorf("installed: exit code %d, %q, want %q:%s", r.exit, r.stdout, want,
			tail(r.stderr))
	}
}

// TestSoftImage makes the container image, and runs a program in it by the line in docs/no-gpu.md.
func TestSoftImage(t *testing.T) {
	if _, err := exec.LookPath("podman"); err != nil {
		skip(t, "no podman here: apt-get install podman")
	}
	if os.Getuid() != 0 {
		skip(t, "only root can keep the test's images apart from the user's own")
	}
	if r := command(t, time.Minute, root, "unshare", "-m", "true"); r.exit != 0 {
		skip(t, "no mount namespace here, which podman needs: %s", r.stderr)
	}
	softBundle(t)
	// The test's own images, and no control groups or limits, which a machine may not have for
	// podman. podman wants to see control groups of version 2 only.
	store := t.TempDir()
	images := store + "/images"
	own := []string{"--root", images, "--runroot", store + "/run", "--storage-driver", "vfs",
		"--cgroup-manager", "cgroupfs"}
	t.Cleanup(func() { // podman removes the container when it has ended already for its user
		until(t, time.Minute, "podman's last process is gone",
			func() bool { return processWith(images) == 0 })
	})
	r := command(t, 5*time.Minute, root, append([]string{"scripts/soft-image"}, own...)...)
	if r.exit != 0 {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
	p := newPlace(t, filepath.Join(programs, "vectoradd"))
	line := strings.Replace(codeBlock(t, noGPU, "podman run --rm --network none"), "podman run",
		"podman "+strings.Join(own, " ")+" run --cgroups=disabled "+
			"--ulimit nofile=1024:1024 --ulimit nproc=2000:2000", 1)
	line = "unshare --mount --cgroup sh -ec '\n" +
		"mount -t cgroup2 groups /sys/fs/cgroup\n" + line + "'"
	if r := p.sh(line, ""); r.exit != 0 || r.stdout != wellFormed(t).stdout {
		t.Errorf("exit code %d, %q, want the program's output:%s", r.exit, r.stdout,
			tail(r.stderr))
	}
}
