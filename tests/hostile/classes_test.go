// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// classes is how many classes of bugs docs/bug-classes.md describes.
const classes = 51

// TestClassesOfBugs: each class of bugs has tests, and TestHostile has cases of just those classes
// for which the document names it.
func TestClassesOfBugs(t *testing.T) {
	text, err := os.ReadFile("../../docs/bug-classes.md")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[int]int{}
	for _, a := range append(attacks(), workerAttacks()...) {
		cases[a.class]++
	}
	entry := regexp.MustCompile(`(?m)^- \*\*(\d+): [^*]+\*\*:((?:.|\n  )+)`)
	tests := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	found := entry.FindAllStringSubmatch(string(text), -1)
	for i, e := range found {
		n, _ := strconv.Atoi(e[1])
		if n != i+1 {
			t.Errorf("class %d follows class %d, want %d", n, i, i+1)
		}
		names := tests.FindAllStringSubmatch(e[2], -1)
		if names == nil {
			t.Errorf("class %d has no test", n)
		}
		says := strings.Contains(e[2], "`TestHostile`")
		if says != (cases[n] > 0) {
			t.Errorf("class %d: %d cases, but the document names TestHostile: %t", n, cases[n],
				says)
		}
		delete(cases, n)
	}
	if len(found) != classes {
		t.Errorf("%d classes, want %d", len(found), classes)
	}
	if len(cases) > 0 {
		t.Errorf("cases of unknown classes: %v", cases)
	}
}
