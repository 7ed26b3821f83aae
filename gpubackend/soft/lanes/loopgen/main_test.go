// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/format"
	"os"
	"strings"
	"testing"
)

// TestCurrent: the loops of package lanes are those of the table.
func TestCurrent(t *testing.T) {
	t.Parallel()
	ops := table()
	for file, text := range map[string]string{
		"zz_generated_loops.go":       goLoops(ops),
		"zz_generated_loops_amd64.go": stubs(ops),
		"zz_generated_loops_amd64.s":  assembly(ops),
	} {
		want := []byte(text)
		if strings.HasSuffix(file, ".go") {
			var err error
			if want, err = format.Source(want); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		if got, err := os.ReadFile("../" + file); err != nil || string(got) != string(want) {
			t.Errorf("%s isn't current: run make generate (%v)", file, err)
		}
	}
}

// TestNamesDiffer: no two operations have one function.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	keys := map[string]string{}
	for _, o := range table() {
		if other, ok := keys[o.name()]; ok {
			t.Errorf("%s and %s are both %s", o.key, other, o.name())
		}
		keys[o.name()] = o.key
	}
}
