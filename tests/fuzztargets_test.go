// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fewestTargets is the least number of fuzz targets.
const fewestTargets = 62

// fuzzed matches the folders in which scripts/fuzz looks for targets.
var fuzzed = regexp.MustCompile(`'\^func Fuzz' \\\s+([a-z ]+) \|`)

// TestFuzzTargetsHaveSeeds: each fuzz target adds inputs to begin with, and scripts/fuzz finds it.
func TestFuzzTargetsHaveSeeds(t *testing.T) {
	targets := 0
	folders := fuzzed.FindSubmatch(read(t, "scripts/fuzz"))
	if folders == nil {
		t.Fatal("scripts/fuzz doesn't say where it looks")
	}
	for _, file := range sources(t, "*_test.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			targets++
			top, _, _ := strings.Cut(file, "/")
			if !slices.Contains(strings.Fields(string(folders[1])), top) {
				t.Errorf("%s: scripts/fuzz doesn't look in %s", file, top)
			}
			if !seeds(f) {
				t.Errorf("%s: %s has no seeds", file, f.Name.Name)
			}
		}
	}
	if targets < fewestTargets {
		t.Errorf("found %d fuzz targets, want at least %d", targets, fewestTargets)
	}
}

// seeds says whether a target adds inputs.
func seeds(target *ast.FuncDecl) (adds bool) {
	ast.Inspect(target, func(n ast.Node) bool {
		if called, is := n.(*ast.SelectorExpr); is && called.Sel.Name == "Add" {
			of, is := called.X.(*ast.Ident)
			adds = adds || is && of.Name == "f"
		}
		return true
	})
	return adds
}
