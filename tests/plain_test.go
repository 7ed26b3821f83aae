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

// TestPlainPackages: packages that are tested without the race detector start no goroutines, use
// neither channels nor sync, and have neither unsafe nor C.
func TestPlainPackages(t *testing.T) {
	line := regexp.MustCompile(`(?m)^PLAIN = (.*)$`).FindStringSubmatch(string(read(t, "Makefile")))
	if line == nil {
		t.Fatal("the Makefile has no line PLAIN =")
	}
	for _, folder := range strings.Fields(line[1]) {
		files := sources(t, folder+"/*.go")
		if len(files) == 0 {
			t.Errorf("PLAIN names %s, which has no Go files", folder)
		}
		for _, file := range files {
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, read(t, file), 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if shares(n) {
					t.Errorf("%s: this may race: take its package out of PLAIN",
						set.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// shares says whether a part of a program may share something with what runs at the same time.
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
