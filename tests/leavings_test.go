// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// makers are the calls that make descriptors, mappings, processes or timers, which outlive the
// call.
var makers = map[string]*regexp.Regexp{
	"os":   regexp.MustCompile(`^(Open|OpenFile|OpenRoot|Create|CreateTemp|Pipe|StartProcess)$`),
	"exec": regexp.MustCompile(`^(Command|CommandContext)$`),
	"net":  regexp.MustCompile(`^(Dial.*|Listen.*|File.*|Pipe)$`),
	"unix": regexp.MustCompile(`^(Open.*|Mmap.*|MemfdCreate|Socket|Socketpair|Accept.*|Eventfd|` +
		`Pipe2?|Dup[23]?|EpollCreate1?|PidfdOpen|PidfdGetfd|InotifyInit1?|TimerfdCreate|Clone.*)$`),
	"syscall": regexp.MustCompile(`^(Open|Mmap|Socket|Socketpair|Accept4?|Pipe2?|Dup[23]?|` +
		`ForkExec|StartProcess)$`),
	"time": regexp.MustCompile(`^AfterFunc$`),
}

// maker says whether a part of a program makes something that a test can leave behind.
func maker(n ast.Node) bool {
	if _, is := n.(*ast.GoStmt); is {
		return true
	}
	call, is := n.(*ast.CallExpr)
	if !is {
		return false
	}
	called, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	if called.Sel.Name == "Go" { // sync.WaitGroup's, or errgroup's
		return true
	}
	of, is := called.X.(*ast.Ident)
	if !is {
		return false
	}
	if of.Name == "unix" && called.Sel.Name == "FcntlInt" {
		return slices.ContainsFunc(call.Args, func(e ast.Expr) bool {
			flag, is := e.(*ast.SelectorExpr)
			return is && strings.HasPrefix(flag.Sel.Name, "F_DUPFD")
		})
	}
	list := makers[of.Name]
	return list != nil && list.MatchString(called.Sel.Name)
}

// looksBehind says whether a function is a TestMain that looks for what the tests left behind.
func looksBehind(n ast.Node) (looks bool) {
	f, is := n.(*ast.FuncDecl)
	if !is || f.Name.Name != "TestMain" || f.Recv != nil {
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if called, is := n.(*ast.SelectorExpr); is && entries[called.Sel.Name] {
			of, is := called.X.(*ast.Ident)
			looks = looks || is && (of.Name == "leaks" || of.Name == "drivertest")
		}
		return true
	})
	return looks
}

// entries are the functions of internal/leaks that run a package's tests.
var entries = map[string]bool{"Main": true, "OfCommands": true}

// TestLeavingsAreLookedFor: a package that makes goroutines, descriptors, mappings or processes, or
// whose tests do, has a TestMain that fails if one is left (internal/leaks). Packages that are only
// for the tests of others have no tests, nor has a process that was taken over.
func TestLeavingsAreLookedFor(t *testing.T) {
	makes, looks, tested := map[string]string{}, map[string]bool{}, map[string]bool{}
	for _, file := range sources(t, "*.go") {
		dir, test := filepath.Dir(file), strings.HasSuffix(file, "_test.go")
		tested[dir] = tested[dir] || test
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, read(t, file), 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch {
			case test && looksBehind(n):
				looks[dir] = true
			case maker(n) && makes[dir] == "":
				makes[dir] = set.Position(n.Pos()).String()
			}
			return true
		})
	}
	if len(makes) < 50 {
		t.Errorf("found %d packages that make something, want at least 50", len(makes))
	}
	for _, dir := range slices.Sorted(maps.Keys(makes)) {
		if !looks[dir] && (tested[dir] || !strings.HasSuffix(dir, "test")) &&
			dir != "tests/hostile/takenover" {
			t.Errorf("%s: the package %s needs a TestMain that calls leaks.Main", makes[dir], dir)
		}
	}
}

// TestMakersAreSeen: maker finds the calls that make something, and no others.
func TestMakersAreSeen(t *testing.T) {
	for line, want := range map[string]bool{
		`go f()`: true, `group.Go(f)`: true, `time.AfterFunc(0, f)`: true, `os.Open("/")`: true,
		`exec.Command("true")`: true, `net.DialUnix("unix", nil, a)`: true,
		`unix.Mmap(0, 0, 1, 0, 0)`: true, `unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)`: true,
		`unix.FcntlInt(0, unix.F_GET_SEALS, 0)`: false, `os.ReadFile("/")`: false,
		`unix.Munmap(b)`: false, `f()`: false, `x.Open("/")`: false,
	} {
		set := token.NewFileSet()
		text := "package p\nfunc g() {\n" + line + "\n}\n"
		parsed, err := parser.ParseFile(set, "p.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen := false
		ast.Inspect(parsed, func(n ast.Node) bool { seen = seen || maker(n); return true })
		if seen != want {
			t.Errorf("%s makes something: %v, want %v", line, seen, want)
		}
	}
}
