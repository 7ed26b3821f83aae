// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// olderPrograms are built by the older toolkit: with the static and the shared runtime of CUDA 11, whose way of
// registering code is another, and with PTX of its compiler.
var olderPrograms = []string{
	"vectoradd", "reduction", "histogram", "stencil", "streams", "copies2d3d", "deviceprintf", "threads4", "driverptx",
	"calls", "half", "montecarlo", "managed", "managedvars",
}

// TestOlderToolkit runs programs of CUDA 11.8.
func TestOlderToolkit(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no VM is booted")
	}
	nvcc := filepath.Join(filepath.Dir(filepath.Dir(compiler())), "cuda-11.8/nvcc")
	if _, err := os.Stat(nvcc); err != nil {
		t.Fatalf("no nvcc 11.8: run scripts/fetch-nvcc 11.8: %v", err)
	}
	dir := filepath.Join(root, "build/programs-11.8")
	build := exec.Command(filepath.Join(root, "tests/programs/build"), append([]string{dir}, olderPrograms...)...)
	build.Env = append(os.Environ(), "NVCC="+nvcc)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with nvcc 11.8: %v\n%s", err, out)
	}
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
	inEach(t, func(t *testing.T, vm frontEnd) {
		var jobs []job
		for _, p := range all {
			jobs = append(jobs, job{p.id(), vm.limit, []string{filepath.Join(dir, p.file)}})
		}
		got := vm.batch(t, jobs)
		for _, p := range all {
			t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
		}
	})
}
