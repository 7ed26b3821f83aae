// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// python is Python's interpreter, which guests have at the same path as the host.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		skip(t, "no Python here: %v", err)
	}
	return path
}

// TestUnsupported calls functions that aren't implemented, three times each. They return 801 each
// time, and guest and host log each function once.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	names := []string{"cuCheckpointProcessLock", "cuCoredumpGetAttributeGlobal",
		"cuMulticastCreate"}
	want := strings.Repeat(strings.Join(names, " 801\n")+" 801\n", 3)
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		script := filepath.Join(root, "tests/scripts/unsupported.py")
		r := vm.run(t, vm.limit, "--", "env", "CUDA_LOG_FILE=stderr", python(t), script)
		if r.exit != 0 || r.stdout != want {
			t.Errorf("exit code %d, output %q, want %q", r.exit, r.stdout, want)
		}
		for _, name := range names {
			guest, host := "[CUDA][W] "+name+" is not supported\n", " function="+name+" "
			if strings.Count(r.stderr, guest) != 1 || strings.Count(r.stderr, host) != 1 {
				t.Errorf("standard error doesn't name %s once from the guest and once from the "+
					"host:%s", name, tail(r.stderr))
			}
		}
	})
}

// TestNVRTC compiles a kernel with NVRTC in the guest, and runs it.
func TestNVRTC(t *testing.T) {
	t.Parallel()
	library := filepath.Join(filepath.Dir(compiler()), "lib/libnvrtc.so.12")
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		if _, err := os.Stat(library); err != nil {
			skip(t, "no NVRTC here: %v", err)
		}
		r := vm.run(t, vm.limit, "--", python(t), filepath.Join(root, "tests/scripts/nvrtc.py"),
			library)
		if r.exit != 0 || r.stdout != "compiled and run\n" || r.stderr != "" {
			t.Errorf("exit code %d, output %q, want \"compiled and run\":%s", r.exit, r.stdout,
				tail(r.stderr))
		}
	})
}

// buildOlder compiles the library's files that depend on DRIVER_VERSION, and takes the others as
// they are.
const buildOlder = `
set -e
cd ../guestdriver/libcuda && make -s
rm -rf "$1" && mkdir -p "$1" && cp -a ../../build/guest/obj/libcuda "$1/obj"
for source in $(grep -l DRIVER_VERSION */*.c); do rm -f "$1/obj/${source%.c}.o"; done
make -s LIB="$1" OBJ="$1/obj" CFLAGS="-O2 -DDRIVER_VERSION=11080"`

// TestNewerRuntime builds the library so that it offers only CUDA 11.8. A program of CUDA 12 fails
// with it, one of CUDA 11 works.
func TestNewerRuntime(t *testing.T) {
	needsOlderCompiler(t)
	t.Parallel()
	dir := filepath.Join(root, "build/guest/older")
	build := sync.OnceValue(func() error {
		out, err := exec.Command("sh", "-c", buildOlder, "sh", dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("build the library: %w\n%s", err, out)
		}
		return buildOlderPrograms()
	})
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		if err := build(); err != nil {
			t.Fatal(err)
		}
		path := "LD_LIBRARY_PATH=" + dir
		r := vm.run(t, vm.limit, "--", "env", path, filepath.Join(programs, follower))
		if r.exit != 1 || !strings.HasSuffix(r.stderr, ": cudaErrorInsufficientDriver (35)\n") {
			t.Errorf("CUDA 12: exit code %d, want 1 and cudaErrorInsufficientDriver:%s", r.exit,
				tail(r.stderr))
		}
		r = vm.run(t, vm.limit, "--", "env", path, filepath.Join(olderDir, follower))
		if r.exit != 0 || r.stdout != wellFormed(t).stdout {
			t.Errorf("CUDA 11: exit code %d, want 0 and the program's output:%s", r.exit,
				tail(r.stdout+r.stderr))
		}
	})
}
