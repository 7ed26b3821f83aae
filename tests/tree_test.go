// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// longest is the greatest number of lines of a file that isn't generated.
const longest = 600

// sources lists the tree's files that match a pattern. It leaves out testdata, what git ignores,
// and generated files.
func sources(t *testing.T, patterns ...string) []string {
	t.Helper()
	out, err := exec.Command("git",
		append([]string{"-C", root, "ls-files", "-z", "-co", "--exclude-standard", "--"},
			patterns...)...).Output()
	if err != nil {
		t.Fatalf("list the files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(files, func(f string) bool {
		_, err := os.Stat(filepath.Join(root, f))
		return err != nil || strings.Contains(f, "zz_generated") ||
			strings.Contains(f, "/testdata/")
	})
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestSources: no source is too long.
func TestSources(t *testing.T) {
	for _, file := range sources(t, "*.go", "*.c", "*.h", "*.cu", "*.sh", "*.s", "*Makefile",
		"scripts/*") {
		text := read(t, file)
		if n := bytes.Count(text, []byte("\n")); n > longest {
			t.Errorf("%s: %d lines, want at most %d", file, n, longest)
		}
	}
}

// mayBeUnsafe matches the names of files that may import unsafe.
var mayBeUnsafe = regexp.MustCompile(`_(unsafe|cgo)(_test)?\.go$`)

// TestGo: every package has a comment, only files with certain names import unsafe, and no test is
// always skipped.
func TestGo(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range sources(t, "*.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil,
			parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		if dir := filepath.Dir(file); !strings.HasSuffix(file, "_test.go") {
			documented[dir] = documented[dir] || parsed.Doc != nil
		}
		for _, imported := range parsed.Imports {
			if imported.Path.Value == `"unsafe"` && !mayBeUnsafe.MatchString(file) {
				t.Errorf("%s imports unsafe: only files called *_unsafe.go or *_cgo.go may", file)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil && skipsAlways(f.Body) &&
				file != "tests/skip_test.go" {
				t.Errorf("%s: %s always skips: give it a condition", file, f.Name.Name)
			}
			return true
		})
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: the package has no comment", dir)
		}
	}
}

// TestHostProgramIsLight: the host's program doesn't have the modules that only its generators use.
// Otherwise each host that builds the program would have to fetch and compile them.
func TestHostProgramIsLight(t *testing.T) {
	r := execute(t, within(time.Minute), root, "go", "list", "-deps", "./cmd/paracuda")
	if r.exit != 0 || !strings.Contains(r.stdout, "/gpubackend/sandbox\n") {
		t.Fatalf("go list: %s%s", r.stdout, r.stderr)
	}
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(line, "gvisor.dev/") {
			t.Errorf("the host's program is built with %s", line)
		}
	}
}

// skipsAlways says whether a function's body has a Skip, or a call of skip, outside any condition.
func skipsAlways(body *ast.BlockStmt) bool {
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			return false
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		switch called := call.Fun.(type) {
		case *ast.SelectorExpr:
			return strings.HasPrefix(called.Sel.Name, "Skip") && called.Sel.Name != "Skipped"
		case *ast.Ident:
			return called.Name == "skip"
		}
		return false
	})
}
