// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPlainPackages: packages that are tested without the race detector start no goroutines, use
// neither channels nor sync, and have neither unsafe nor C. What they use starts no goroutines.
func TestPlainPackages(t *testing.T) {
	line := regexp.MustCompile(`(?m)^PLAIN = ((?:.*\\\n)*.*)$`).
		FindStringSubmatch(string(read(t, "Makefile")))
	if line == nil {
		t.Fatal("the Makefile has no line PLAIN =")
	}
	for _, folder := range strings.Fields(strings.ReplaceAll(line[1], "\\", "")) {
		files := sources(t, folder+"/*.go")
		if len(files) == 0 {
			t.Errorf("PLAIN names %s, which has no Go files", folder)
		}
		for _, file := range files {
			none(t, file, shares)
		}
		for _, used := range usedBy(t, folder) {
			// managed's tests ask these where the downloads lie, and boot no VM.
			if used == "vm" || strings.HasPrefix(used, "qemu") {
				continue
			}
			for _, file := range sources(t, used+"/*.go") {
				if path.Dir(file) == used && !strings.HasSuffix(file, "_test.go") {
					none(t, file, starts)
				}
			}
		}
	}
}

// usedBy are the folders of this module's packages that a package or its tests use.
func usedBy(t *testing.T, folder string) (folders []string) {
	t.Helper()
	const module = "github.com/paracuda/paracuda/"
	r := execute(t, within(time.Minute), root, "go", "list", "-test", "-deps", "./"+folder)
	if r.exit != 0 {
		t.Fatalf("list what %s uses: %s", folder, r.stderr)
	}
	for line := range strings.Lines(r.stdout) {
		// A package made for a test has the test's name behind it.
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		used, ours := strings.CutPrefix(name, module)
		if ours && used != folder && used != folder+".test" {
			folders = append(folders, used)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// none checks that nothing in a file is what found looks for.
func none(t *testing.T, file string, found func(ast.Node) bool) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, read(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if found(n) {
			t.Errorf("%s: this may race: take what uses it out of PLAIN", set.Position(n.Pos()))
		}
		return true
	})
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
	case *ast.ImportSpec:
		name, _ := strconv.Unquote(n.Path.Value)
		return name == "unsafe" || name == "C" || name == "sync" || strings.HasPrefix(name, "sync/")
	}
	return false
}
