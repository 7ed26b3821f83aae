// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// TestListVMs: a line for each VM, in the order of names, without a terminal's control characters.
func TestListVMs(t *testing.T) {
	b := vmOf("b", 0, false, 0)
	b.GPUs = []link.GPU{{Name: "soft"}}
	b.Policy["class"] = "latency"
	var out strings.Builder
	listVMs(&out, []link.VM{b, {Name: "a", Policy: map[string]string{"weight": "\x1b[2J"}}})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	want := []string{"VM GPU PROGRAMS MEMORY WEIGHT CLASS", "a - - ?[2J",
		"b soft 1 3092M 100 latency"}
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if strings.Join(lines, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", lines, want)
	}
}
