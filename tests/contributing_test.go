// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"strings"
	"testing"
)

// TestOneFunctionThroughAllSteps: each file that CONTRIBUTING.md names for its example has the
// example's function.
func TestOneFunctionThroughAllSteps(t *testing.T) {
	const function = "OccupancyAvailableDynamicSMemPerBlock"
	_, steps, found := strings.Cut(string(read(t, "CONTRIBUTING.md")),
		"### One function through all steps\n`cu"+function+"`")
	if !found {
		t.Fatalf("CONTRIBUTING.md doesn't have cu%s as its example", function)
	}
	files := regexp.MustCompile("`([a-z]+/[\\w/.]+\\.(?:c|go|cu|def|tsv|md))`").
		FindAllStringSubmatch(steps, -1)
	if len(files) < 8 {
		t.Errorf("CONTRIBUTING.md names %d files for its example, want at least 8", len(files))
	}
	for _, file := range files {
		if !strings.Contains(string(read(t, file[1])), function) {
			t.Errorf("%s doesn't have %s", file[1], function)
		}
	}
}
