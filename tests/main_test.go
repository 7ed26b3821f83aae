// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/internal/leaks"
	"github.com/paracuda/paracuda/vm"
)

// Where the things under test lie, as absolute paths.
var (
	root     = absolute("..")
	paracuda = setting("PARACUDA", filepath.Join(root, "bin/paracuda"))
	programs = setting("PARACUDA_PROGRAMS", filepath.Join(root, "build/programs"))
	runner   = filepath.Join(root, "tests/runner/runner")

	crowdScript = filepath.Join(root, "tests/runner/crowd")
)

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}

// setting reads a variable from the environment.
func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func TestMain(m *testing.M) {
	flag.Parse()
	if !atNight { // packages are compressed as little as xz can, which takes a third of the time
		_ = os.Setenv("XZ_LEVEL", "0")
	}
	if testing.Short() {
		fmt.Println("-short: no VM is booted")
	} else if fuzzing() {
		fmt.Println("fuzzing: no programs are built")
	} else if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "tests:", err)
		os.Exit(1)
	}
	image.Host() // keeps a file open for all that ask for the host's memory
	code := leaks.Main(m)
	if _, err := os.Stat(paracuda); code != 0 && err != nil {
		fmt.Fprintf(os.Stderr, "tests: find the program under test: %v: run make binary\n", err)
	}
	os.Exit(code)
}

// fuzzing says that this process looks for inputs, or is one of those that try them.
func fuzzing() bool {
	return flag.Lookup("test.fuzz").Value.String() != "" ||
		flag.Lookup("test.fuzzworker").Value.String() == "true"
}

// prepare builds the programs that have changed since the last build. With PARACUDA_PROGRAMS it
// builds none.
func prepare() error {
	if _, err := os.Stat(paracuda); err != nil {
		return fmt.Errorf("find the program under test: %w: run make", err)
	}
	if os.Getenv("PARACUDA_PROGRAMS") != "" {
		return nil
	}
	cmd := exec.Command(filepath.Join(root, "tests/programs/build"), programs)
	cmd.Env = builderOf(compiler())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the programs: %w", err)
	}
	return nil
}

// builderOf is the environment for programs/build with a compiler. It keeps what it builds with the
// downloads, for other checkouts.
func builderOf(nvcc string) []string {
	kept := setting("KEPT", cached("programs"))
	return append(os.Environ(), "NVCC="+nvcc, "KEPT="+kept)
}

// compiler is nvcc: $NVCC, that of the cache, or the one in PATH.
func compiler() string {
	nvcc := cached("cuda-12.4/nvcc")
	if _, err := os.Stat(nvcc); err != nil {
		nvcc = "nvcc"
	}
	return setting("NVCC", nvcc)
}

// cached is the place in the cache of a part that the scripts fetch.
func cached(part string) string { return filepath.Join(vm.FindAssets().Cache, part) }

// logDir is a folder for a test's logs and lists, which stay after the test. Guests see it; they
// don't see the host's /tmp.
func logDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(root, "build/log", strings.ReplaceAll(t.Name(), "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
