// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// anyOf says whether a part of any of the files is what found looks for.
func anyOf(dir string, files []string, found func(ast.Node) bool) (is bool, err error) {
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			return false, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			is = is || found(n)
			return !is
		})
		if is {
			return true, nil
		}
	}
	return false, nil
}

// starts says whether a part of a program starts a goroutine.
func starts(n ast.Node) bool {
	_, ok := n.(*ast.GoStmt)
	return ok
}

// shares says whether a part of a program may share something with what runs at the same time.
func shares(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
		return true
	case *ast.SelectorExpr:
		return n.Sel.Name == "AfterFunc"
	case *ast.ImportSpec:
		name, _ := strconv.Unquote(n.Path.Value)
		return name == "unsafe" || name == "C" || name == "sync" || strings.HasPrefix(name, "sync/")
	}
	return false
}
