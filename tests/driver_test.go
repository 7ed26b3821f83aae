// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// build compiles a C file to a program or library in a folder that guests see. Another process of
// the tests may do the same now.
func build(t testing.TB, source string, options ...string) string {
	t.Helper()
	program := filepath.Join(logDir(t), strings.TrimSuffix(filepath.Base(source), ".c"))
	new := fmt.Sprint(program, ".", os.Getpid())
	args := append([]string{"cc", "-O2", "-Wall", "-Wextra", "-o", new,
		filepath.Join(root, source)}, options...)
	if r := command(t, time.Minute, root, args...); r.exit != 0 {
		t.Fatalf("cc: %s", r.stderr)
	}
	if err := os.Rename(new, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// driverTest builds the program that tests the guest driver.
func driverTest(t testing.TB) string {
	t.Helper()
	return build(t, "guestdriver/kernel/test/paracuda-test.c", "-static", "-pthread",
		"-I"+filepath.Join(root, "guestdriver/include"))
}

// TestKernelDriver tests what the guest driver must allow, and what it must refuse.
func TestKernelDriver(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, vm.limit, "--", driverTest(t))
		if r.exit != 0 || !strings.Contains(r.stdout, "ok: 0 checks failed") {
			t.Errorf("exit code %d:%s%s", r.exit, tail(r.stdout), tail(r.stderr))
		}
	})
}

// TestNewerKernel runs a program under QEMU's other guest kernel, 6.12. The report of the run,
// which names the kernel, goes to standard error alone.
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

// TestNotImplemented calls a function twice that isn't implemented. The log names it once.
func TestNotImplemented(t *testing.T) {
	t.Parallel()
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/call.c", "-ldl")
		log := "PARACUDA_LOG=stderr"
		r := vm.run(t, vm.limit, "--", "env", log, program, "cuCoredumpSetAttribute",
			"cuCoredumpSetAttribute")
		if r.exit != 0 || r.stdout != "801\n801\n" {
			t.Errorf("exit code %d, output %q, want 0 and 801 twice:%s", r.exit, r.stdout,
				tail(r.stderr))
		}
		if n := strings.Count(r.stderr, "cuCoredumpSetAttribute is not supported"); n != 1 {
			t.Errorf("it is logged %d times, want once:%s", n, tail(r.stderr))
		}
	})
}

// fullLine matches what a program says if it finds no free channel.
var fullLine = regexp.MustCompile(`^paracuda\[\d+\]: all channels .* in use: ` +
	`end another CUDA program, or .*more channels\n$`)

// TestNoFreeChannel starts a program while another one has the only channel.
func TestNoFreeChannel(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/call.c", "-ldl")
		script := `mkfifo /tmp/up; "$0" hold >/tmp/up & read line </tmp/up; ` +
			`"$0" cuCtxGetCurrent >&2; code=$?; kill $!; wait; exit $code`
		r := vm.run(t, vm.limit, "--set", "channels=1", "--", "sh", "-c", script, program)
		if r.exit != 3 || !fullLine.MatchString(r.stderr) {
			t.Errorf("exit code %d, want 3 and standard error %s:%s%s", r.exit, fullLine,
				tail(r.stdout), tail(r.stderr))
		}
	})
}
