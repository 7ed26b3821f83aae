// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// besideScript runs a program that uses the GPU from a file system that virtiofsd serves. It prints
// how many devices with a file system's virtio ID (26) each driver has.
const besideScript = `cd "$1" && cp "$0" program && ` +
	`./program cuCtxGetCurrent >/dev/null && cmp "$0" program && ` +
	`grep -c " $1 virtiofs " /proc/mounts && for d in /sys/bus/virtio/devices/*; do ` +
	`[ "$(cat $d/device)" != 0x001a ] || basename "$(readlink $d/driver)"; done | sort | uniq -c`

var besideWant = regexp.MustCompile(`^1\n +1 paracuda\n +[1-9] virtiofs\n$`)

// In User Mode Linux, Paracuda's device has another virtio ID.
var besideInUML = regexp.MustCompile(`^1\n +1 virtiofs\n$`)

// TestVirtiofsBeside: one VM uses the GPU and virtiofsd's file system. Both devices have the same
// virtio ID.
func TestVirtiofsBeside(t *testing.T) {
	needsQEMU(t)
	program := build(t, "tests/guests/call.c", "-ldl")
	for _, kernel := range []string{"6.1", "6.12"} {
		t.Run(kernel, func(t *testing.T) {
			dir := t.TempDir()
			front := frontEnds[slices.IndexFunc(frontEnds, frontEnd.isQEMU)]
			r := front.run(t, front.limit, "--kernel", kernel, "--write", dir, "--",
				"sh", "-c", besideScript, program, dir)
			if r.exit != 0 || !besideWant.MatchString(r.stdout) {
				t.Errorf("exit code %d, want output like %q:%s%s", r.exit, besideWant,
					tail(r.stdout), tail(r.stderr))
			}
			if _, err := os.Stat(filepath.Join(dir, "program")); err != nil {
				t.Error(err)
			}
		})
	}
}

// mountScript mounts the file system before besideScript.
const mountScript = `mkdir -p /tmp/shared && mount -t virtiofs beside /tmp/shared && ` +
	`set -- /tmp/shared && ` + besideScript

// TestVirtiofsInUML is the same in the newest kernel, which runs as User Mode Linux.
func TestVirtiofsInUML(t *testing.T) {
	boots(t)
	needsUML(t)
	program := build(t, "tests/guests/call.c", "-ldl")
	assets, dir := vm.FindAssets(), t.TempDir()
	driver, err := assets.Driver(vm.UML, "")
	if err != nil {
		t.Fatal(err)
	}
	files, gpu := filepath.Join(dir, "files"), filepath.Join(dir, "gpu")
	shared := shareDir(t, files, "beside")
	serve(t, gpu)
	ctx, cancel := withPatience(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	r, err := vm.Run(ctx, vm.Config{Kind: vm.UML, Assets: assets,
		Machine: vm.Machine{Console: &stderr, FileSystems: []string{files}},
		Device:  vm.Device{Socket: gpu},
		Driver: vm.GuestDriver{Modules: []vm.Module{driver}, File: "/dev/paracuda",
			LibDir: assets.LibDir()},
		Program: vm.Program{Name: "sh", Args: []string{"-c", mountScript, program}, Dir: root,
			Stdout: &stdout, Stderr: &stderr}})
	if err != nil || r.ExitCode != 0 || !besideInUML.MatchString(stdout.String()) {
		t.Errorf("exit code %d, %v, want output like %q:%s%s", r.ExitCode, err, besideInUML,
			tail(stdout.String()), tail(stderr.String()))
	}
	if _, err := os.Stat(filepath.Join(shared, "program")); err != nil {
		t.Error(err)
	}
}

// shareDir starts a virtiofsd that tells its front end its tag, and returns the folder that it
// shares.
func shareDir(t *testing.T, socket, tag string) string {
	t.Helper()
	program, err := vm.FindAssets().Virtiofsd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(program, "--shared-dir="+dir, "--socket-path="+socket, "--tag="+tag,
		"--sandbox=none", "--inode-file-handles=never", "--log-level=error")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	for w := patienceOf(time.Minute); !w.over(); {
		if listens(socket) {
			return dir
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("virtiofsd made no socket")
	return ""
}

func (f frontEnd) isQEMU() bool { return f.name == "qemu" }
