// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNamedGPUs runs the script that tries each way to name GPUs, with the software GPU: a GPU's
// host runs it with its own.
func TestNamedGPUs(t *testing.T) {
	boots(t)
	out, err := exec.Command(python(t), "bundle/gpus", "soft").CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\n0 wrong of 5\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTwoGPUs runs the programs that need two GPUs.
func TestTwoGPUs(t *testing.T) {
	t.Parallel()
	all := slices.DeleteFunc(readPrograms(t), func(p program) bool { return !p.has("two") })
	inEach(t, func(t *testing.T, vm frontEnd) {
		var jobs []job
		for _, p := range all {
			file := filepath.Join(programs, p.file)
			jobs = append(jobs, job{p.id(), vm.limit, append([]string{file}, p.args...)})
		}
		got := vm.batch(t, jobs, "--gpu", "soft:2")
		for _, p := range all {
			t.Run(p.id(), func(t *testing.T) { p.check(t, got, p.id()) })
		}
	})
}
