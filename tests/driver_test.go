// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// build compiles a C file into a static program where guests see it.
func build(t *testing.T, source string, options ...string) string {
	t.Helper()
	program := filepath.Join(logDir(t), strings.TrimSuffix(filepath.Base(source), ".c"))
	args := append([]string{"cc", "-O2", "-Wall", "-Wextra", "-o", program,
		filepath.Join(root, source)}, options...)
	if r := command(t, time.Minute, root, args...); r.exit != 0 {
		t.Fatalf("cc: %s", r.stderr)
	}
	return program
}

// driverTest builds the program that tries the guest driver.
func driverTest(t *testing.T) string {
	t.Helper()
	return build(t, "guestdriver/kernel/test/paracuda-test.c", "-static", "-pthread",
		"-I"+filepath.Join(root, "guestdriver/include"))
}

// TestKernelDriver tries what the guest driver must allow and refuse.
func TestKernelDriver(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, vm.limit, "--", driverTest(t))
		if r.exit != 0 || !strings.Contains(r.stdout, "ok: 0 checks failed") {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}

// TestNewerKernel runs a program under the other guest kernel of QEMU's.
func TestNewerKernel(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		if vm.name != "qemu" {
			skip(t, "User Mode Linux is a kernel of its own")
		}
		r := vm.run(t, vm.limit, "--kernel", "6.12", "--report", "--",
			filepath.Join(programs, follower))
		if r.exit != 0 || !strings.Contains(r.stderr, "guest kernel 6.12") ||
			strings.Contains(r.stdout, "guest kernel") {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}

// TestNotImplemented calls, twice, a function that there is by name only.
func TestNotImplemented(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/call.c", "-ldl")
		log := "PARACUDA_LOG=stderr"
		r := vm.run(t, vm.limit, "--", "env", log, program, "cuCoredumpSetAttribute",
			"cuCoredumpSetAttribute")
		if r.exit != 0 || r.stdout != "801\n801\n" {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
		if n := strings.Count(r.stderr, "cuCoredumpSetAttribute is not supported"); n != 1 {
			t.Errorf("it is logged %d times:%s", n, tail(r.stderr))
		}
	})
}

// fullLine is what a program says that finds no free channel.
var fullLine = regexp.MustCompile(`^paracuda\[\d+\]: all channels .* in use: ` +
	`end another CUDA program, or .*more channels\n$`)

// TestNoFreeChannel starts a program while another has the only channel.
func TestNoFreeChannel(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/call.c", "-ldl")
		script := `mkfifo /tmp/up; "$0" hold >/tmp/up & read line </tmp/up; ` +
			`"$0" cuCtxGetCurrent >&2; code=$?; kill $!; wait; exit $code`
		r := vm.run(t, vm.limit, "--set", "channels=1", "--", "sh", "-c", script, program)
		if r.exit != 3 || !fullLine.MatchString(r.stderr) {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}
