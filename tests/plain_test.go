// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPlainPackages: those that are tested without the race detector start no goroutines, keep
// nothing that two could share, and wait for nobody.
func TestPlainPackages(t *testing.T) {
	line := regexp.MustCompile(`(?m)^PLAIN = (.*)$`).FindStringSubmatch(string(read(t, "Makefile")))
	if line == nil {
		t.Fatal("the Makefile names no plain packages")
	}
	for _, folder := range strings.Fields(line[1]) {
		files := sources(t, folder+"/*.go")
		if len(files) == 0 {
			t.Errorf("there is no package %s", folder)
		}
		for _, file := range files {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, read(t, file), 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if shares(n) {
					t.Errorf("%s: test this with the race detector", set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// shares says whether a part of a program has to do with what runs beside it.
func shares(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
		return true
	case *ast.ImportSpec:
		path, _ := strconv.Unquote(n.Path.Value)
		return path == "unsafe" || path == "C" || path == "sync" || strings.HasPrefix(path, "sync/")
	}
	return false
}
