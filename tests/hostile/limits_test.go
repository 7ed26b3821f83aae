// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestChildrenLeaveNoCores looks at the limits of a worker and a mover that serve.
func TestChildrenLeaveNoCores(t *testing.T) {
	g := newGuest(t)
	if err := g.hello(); err != nil {
		t.Fatal(err)
	}
	if err := g.channels[victim].start(); err != nil {
		t.Fatal(err)
	}
	limit := regexp.MustCompile(`(?m)^Max core file size +1 +1 +bytes`)
	roles := map[string]bool{}
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(g.process.Process.Pid) + "/task/*/children")
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for _, pid := range strings.Fields(string(children)) {
			line, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if err != nil {
				t.Fatal(err)
			}
			limits, err := os.ReadFile("/proc/" + pid + "/limits")
			if err != nil {
				t.Fatal(err)
			}
			roles[strings.Split(string(line), "\x00")[1]] = true
			if !limit.Match(limits) {
				t.Errorf("%q has these limits:\n%s", line, limits)
			}
		}
	}
	if !roles["worker"] || !roles["mover"] {
		t.Errorf("the children are %v", roles)
	}
}
