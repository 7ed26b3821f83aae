// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cgroup"
)

// unitNames are systemd's names of a group's files.
var unitNames = map[string]string{"memory.max": "MemoryMax", "pids.max": "TasksMax",
	"cpu.weight": "CPUWeight", "io.weight": "IOWeight"}

// TestUnitsBounds: the unit of a VM bounds each thing of the host that --cgroup-set can.
func TestUnitsBounds(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(root, "packaging/systemd/paracuda@.service"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for line := range strings.Lines(string(unit)) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), "="); is {
			has[name] = value
		}
	}
	bound := regexp.MustCompile(`^[1-9][0-9]*%?$`)
	for _, file := range cgroup.Names() {
		name := unitNames[file]
		if !bound.MatchString(has[name]) || has[name] == "100%" {
			t.Errorf("%s is bounded by %q=%q, want a number", file, name, has[name])
		}
	}
}
