// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun runs a shell in a VM, and checks which files, arguments and outputs it has.
func TestRun(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		mark := filepath.Join(logDir(t), "mark")
		if err := os.WriteFile(mark, []byte("from the host\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		script := strings.Join([]string{
			"pwd", "cat " + mark,
			"echo written >/tmp/file && cat /tmp/file",
			"echo x 2>/dev/null >/usr/written || echo read-only",
			"echo separate >&2",
			"printf '%s|' \"$@\"",
			"exit 7",
		}, "; ")
		r := vm.run(t, vm.limit, "--", "sh", "-c", script, "sh", "two words", "", "$HOME")
		want := root + "\nfrom the host\nwritten\nread-only\ntwo words||$HOME|"
		if r.stdout != want {
			t.Errorf("standard output %q, want %q", r.stdout, want)
		}
		if want := "separate\n" + gone(1, "/tmp"); r.stderr != want {
			t.Errorf("standard error %q, want %q", r.stderr, want)
		}
		if r.exit != 7 {
			t.Errorf("exit code %d, want 7", r.exit)
		}
		if text, err := os.ReadFile(mark); err != nil || string(text) != "from the host\n" {
			t.Errorf("the host's file is now %q, %v, want it unchanged", text, err)
		}
	})
}

// TestRunOne runs single programs, each in a VM of its own.
func TestRunOne(t *testing.T) {
	t.Parallel()
	for _, p := range readPrograms(t) {
		if p.id() != "vectoradd" && p.id() != "devassert" && p.id() != "abortmidcopy" {
			continue
		}
		t.Run(p.id(), func(t *testing.T) {
			t.Parallel()
			inEach(t, func(t *testing.T, vm frontEnd) {
				r := vm.run(t, vm.limit, "--", filepath.Join(programs, p.file))
				got := outcome{exit: r.exit, stdout: r.stdout, stderr: r.stderr}
				p.check(t, map[string]outcome{p.id(): got}, p.id())
			})
		})
	}
}

// TestTmpIsAMount runs a program on a host whose /tmp is a mount, as on many. This tree may be in
// it.
func TestTmpIsAMount(t *testing.T) {
	t.Parallel()
	if r := command(t, time.Minute, root, "unshare", "-m", "true"); r.exit != 0 {
		skip(t, "no mounts of its own for a process here: %s", r.stderr)
	}
	inEach(t, func(t *testing.T, vm frontEnd) {
		script := "mount --bind /tmp /tmp && exec \"$@\""
		r := command(t, vm.boot+vm.limit, root, "unshare", "-m", "sh", "-c", script, "sh", paracuda,
			"run", "--vm", vm.name, "--gpu", "soft",
			"--", "sh", "-c", "echo written >/tmp/file && cat /tmp/file")
		if r.exit != 0 || r.stdout != "written\n" {
			t.Errorf("exit code %d, output %q, errors %q, want 0, \"written\\n\"", r.exit, r.stdout,
				r.stderr)
		}
	})
}

// TestRunAsTheReadmeSays executes the lines of README.md that run a program, one for each kind of
// VM.
func TestRunAsTheReadmeSays(t *testing.T) {
	boots(t)
	if setting("PARACUDA_VM", "uml,qemu") != "uml,qemu" {
		skip(t, "PARACUDA_VM leaves out one of the VMs that the lines boot")
	}
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(filepath.Join(root, "bin"), filepath.Join(dir, "bin")),
		os.Symlink(filepath.Join(programs, "vectoradd"),
			filepath.Join(dir, "program"))); err != nil {
		t.Fatal(err)
	}
	r := command(t, 5*time.Minute, dir, "sh", "-ec",
		codeBlock(t, "README.md", "bin/paracuda run --report"))
	if r.exit != 0 || r.stdout != strings.Repeat(wellFormed(t).stdout, 2) ||
		!strings.Contains(r.stderr, "paracuda: ran in QEMU ") {
		t.Errorf("exit code %d, %q, want the program's output twice, and a report:%s", r.exit,
			r.stdout, tail(r.stderr))
	}
}
