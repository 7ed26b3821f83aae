// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fewest is the least number of cases that aren't repeated for each operation.
const fewest = 150

// TestCasesAreCounted counts the cases of each kind, without running any: make count-hostile prints
// the result. No case is counted twice: each has a name of its own.
func TestCasesAreCounted(t *testing.T) {
	kinds, names := map[string]int{}, map[string]bool{}
	each := map[string]bool{}
	for _, a := range everyOp() {
		each[a.name] = true
	}
	for _, a := range slices.Concat(attacks(), workerAttacks(), sessions()) {
		if names[a.name] {
			t.Errorf("two cases have the name %q", a.name)
		}
		names[a.name] = true
		kind, _, _ := strings.Cut(a.name, ":")
		kind, _, _ = strings.Cut(kind, " at 0x")
		if each[a.name] {
			kind = "one for each operation"
		}
		kinds[kind]++
	}
	others := len(names) - len(each)
	var report strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&report, "%5d %s\n", kinds[kind], kind)
	}
	fmt.Fprintf(&report, "%5d messages of a front end, counted separately\n",
		len(messages()))
	t.Logf("\n%s%5d in all: %d for each operation, %d others (at least %d)", &report, len(names),
		len(each), others, fewest)
	if len(each) == 0 || others < fewest {
		t.Errorf("%d cases for each operation, %d others, want some, and at least %d", len(each),
			others, fewest)
	}
}
