// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os/exec"
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
