// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"regexp"
	"strings"
	"testing"
)

// TestOneFunctionThroughAllSteps says whether the function that CONTRIBUTING.md follows is in each
// of the files that it names there.
func TestOneFunctionThroughAllSteps(t *testing.T) {
	const function = "OccupancyAvailableDynamicSMemPerBlock"
	_, steps, found := strings.Cut(string(read(t, "CONTRIBUTING.md")),
		"### One function through all steps\n`cu"+function+"`")
	if !found {
		t.Fatal("CONTRIBUTING.md follows another function, or none")
	}
	files := regexp.MustCompile("`([a-z]+/[\\w/.]+\\.(?:c|go|cu|def|tsv|md))`").
		FindAllStringSubmatch(steps, -1)
	if len(files) < 8 {
		t.Errorf("%d files are named: fewer than there are", len(files))
	}
	for _, file := range files {
		if !strings.Contains(string(read(t, file[1])), function) {
			t.Errorf("%s doesn't have %s", file[1], function)
		}
	}
}
