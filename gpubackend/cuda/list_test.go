// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cuda/drivertest"
)

// TestList names the GPUs of the fake driver, and says what is wrong without one.
func TestList(t *testing.T) {
	names, err := list(drivertest.Library)
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		if before, _, ok := strings.Cut(name, ", "); !ok || before == "" ||
			!strings.HasSuffix(name, " MiB") || strings.Contains(name, "\x00") {
			t.Errorf("%q", name)
		}
	}
	if names, err := list("/nowhere/libcuda.so.1"); err == nil ||
		!strings.Contains(err.Error(), "no CUDA driver") {
		t.Errorf("%q, %v", names, err)
	}
}
