// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestCUPTI runs a client of the part of CUPTI that the guests' libparacuda-cupti.so has: what PyTorch's profiler uses.
func TestCUPTI(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		program := build(t, "tests/guests/activity.c", "-ldl")
		r := vm.run(t, vm.limit, "--", "env", "LD_PRELOAD=libparacuda-cupti.so", program)
		want := "started\nkernels\ncopies\nfills\ngraphs\na clock of the client's\nbuffers\nended\n"
		if r.exit != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("exit code %d, output %q%s", r.exit, r.stdout, tail(r.stderr))
		}
	})
}

// TestSanitizer: compute-sanitizer's library crashes where it doesn't find NVIDIA's driver. Before that the user is told.
func TestSanitizer(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		library := build(t, "tests/guests/sanitizer.c", "-shared", "-fPIC", "-ldl")
		text, err := os.ReadFile(library)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"libsanitizer-collection.so": sanitizerLine, "libother.so": `^$`} {
			file := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(file, text, 0o755); err != nil {
				t.Fatal(err)
			}
			r := vm.run(t, vm.limit, "--", "env", "LD_PRELOAD="+file, "true")
			if r.exit != 0 || r.stdout != "1 0\n" || !regexp.MustCompile(want).MatchString(r.stderr) {
				t.Errorf("%s: exit code %d, output %q%s", name, r.exit, r.stdout, tail(r.stderr))
			}
		}
	})
}

const sanitizerLine = `^paracuda\[\d+\]: compute-sanitizer can't look at programs in this VM, .* run it on the host\n$`
