// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// olderPrograms are built by the older toolkit, with CUDA 11's static runtime, and vectoradd also
// with the shared one. These register code in another way. The PTX comes from the older compiler,
// too.
var olderPrograms = []string{
	"vectoradd", "reduction", "histogram", "stencil", "streams", "copies2d3d", "deviceprintf",
	"threads4", "driverptx",
	"calls", "half", "montecarlo", "managed", "managedvars", "texref", "texturerefs", "output",
	"processes",
}

var olderDir = filepath.Join(root, "build/programs-11.8")

// buildOlderPrograms is called once for both front ends.
var buildOlderPrograms = sync.OnceValue(func() error {
	nvcc := cached("cuda-11.8/nvcc")
	if _, err := os.Stat(nvcc); err != nil {
		return fmt.Errorf("no nvcc 11.8: run scripts/fetch-nvcc 11.8: %w", err)
	}
	build := exec.Command(filepath.Join(root, "tests/programs/build"),
		append([]string{olderDir}, olderPrograms...)...)
	build.Env = builderOf(nvcc)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build with nvcc 11.8: %w\n%s", err, out)
	}
	return nil
})

// needsOlderCompiler skips a test if nvcc 11.8 has no compiler for host code.
func needsOlderCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("g++-11"); err != nil {
		skip(t, "no g++-11, the newest that nvcc 11.8 accepts (Debian 13 has none): %v", err)
	}
}

// TestOlderToolkit runs programs that were built by CUDA 11.8.
func TestOlderToolkit(t *testing.T) {
	needsOlderCompiler(t)
	t.Parallel()
	var all []program
	for _, file := range append([]string{"vectoradd-shared"}, olderPrograms...) {
		p := program{file: file}
		if err := p.expect("programs/want"); err != nil && file != "vectoradd-shared" {
			t.Fatal(err)
		}
		if file == "vectoradd-shared" {
			p.stdout = wellFormed(t).stdout
		}
		all = append(all, p)
	}
	inOneByDay(t, func(t *testing.T, vm frontEnd) {
		if err := buildOlderPrograms(); err != nil {
			t.Fatal(err)
		}
		var jobs []job
		for _, p := range all {
			jobs = append(jobs, job{p.id(), vm.limit, []string{filepath.Join(olderDir, p.file)}})
		}
		got := vm.batch(t, jobs)
		for _, p := range all {
			t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
		}
	})
}
