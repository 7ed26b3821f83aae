// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	structures "github.com/paracuda/paracuda/gpubackend/internal/gen/layout"
)

var update = flag.Bool("update", false, "write what the generator makes as what is wanted")

// golden compares what was made with a file of testdata. A Go file is made narrow first.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if strings.Contains(name, ".go") {
		text, err := narrowGo(got)
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		got = text
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s: line %d is %q, want %q", name, i+1, g[i], w[min(i, len(w)-1)])
		}
	}
	t.Fatalf("%s: %d lines, want %d", name, len(g), len(w))
}

// smallAPI is a few functions and ops that commands can name.
func smallAPI() (*api, *wire) {
	a := &api{
		functions: []function{
			{number: 300, class: "raw", op: true, symbol: "Thing"},
			{number: 301, class: "raw", symbol: "cuFew", noctx: true, exact: true},
			{number: 302, class: "call", symbol: "cuCalled"},
		},
		sets:    []set{{name: "choice", kind: "of", mask: 6}},
		kinds:   []*kind{{name: "stream", goName: "Stream"}},
		handles: []string{"thing"},
	}
	w := &wire{decls: []decl{{kind: "enum", name: "op",
		members: []member{{name: "HELLO", value: 1}}},
		{kind: "struct", name: "some_struct", members: []member{{typ: "u64"}, {typ: "u64"}}}}}
	return a, w
}

func parseSmall(text string) (*commands, error) {
	a, w := smallAPI()
	cuda := map[string]structures.Number{
		"CUsome": {Value: 24, InGo: "SomeSize", InC: "24"},
		"LIMIT":  {Value: 7, InGo: "Limit", InC: "CUDA_LIMIT"},
	}
	return parseCommands("x.def", strings.NewReader(text), a, w, cuda)
}

func TestCommandsGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/commands.def")
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseSmall(string(text))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "commands.go", commandsGo(c))
	golden(t, "commands_test.go", roundTripsGo(c))
	golden(t, "commands.h", commandsC(c))
	a, _ := smallAPI()
	golden(t, "layouts.h", layoutsC(a, c))
	golden(t, "words.h", whereC(a, c))
	golden(t, "commands.md", commandsDoc(c))
}

// TestCommandErrors has descriptions with one fault, which is told with its line.
func TestCommandErrors(t *testing.T) {
	const rest = "\ncommand cuFew {\n}\n"
	thing := func(fields ...string) string {
		return "command Thing {\n" + strings.Join(fields, "\n") + "\n}\n" + rest
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing of the kind", "thing X {\n", `x.def:1: not a declaration: "thing"`},
		{"no brace", "command Thing\n", "x.def:1: want command NAME ... {"},
		{"a second constant", "const A 1\nconst A 2\n", "x.def:2: a second constant A"},
		{"a constant without a value", "const A\n", "x.def:1: want const NAME VALUE"},
		{"no number", "const A x1\n", `x.def:1: strconv.ParseUint: parsing "x1": invalid syntax`},
		{"unknown command", "command Other {\n",
			"x.def:1: Other is neither a function of class raw nor an op"},
		{"another class", "command cuCalled {\n",
			"x.def:1: cuCalled is neither a function of class raw nor an op"},
		{"flags in two places", "command Thing noctx {\n",
			"x.def:1: the flags of Thing are in cuda.def"},
		{"unknown flag", "command HELLO loud {\n", `x.def:1: unknown flag "loud"`},
		{"twice", thing() + "command Thing {\n", "x.def:7: a second Thing"},
		{"no end", "command Thing {\nu64 a\n", "x.def:2: Thing has no end"},
		{"not described", "command Thing {\n}\n",
			"x.def:2: cuFew is of class raw and isn't described"},
		{"a record's flags", "record r 1 2 {\n", "x.def:1: want record NAME [VALUE] {"},
		{"a record's answer", "record r {\n} answer {\n", `x.def:2: unexpected "answer {"`},
		{"unknown type", thing("u128 a"), `x.def:2: a: unknown type "u128"`},
		{"no name", thing("u64"), "x.def:2: want TYPE NAME"},
		{"a second field", thing("u64 a", "u64 a"), "x.def:3: a second field a"},
		{"a handle of nothing", thing("h a"), "x.def:2: a: want h.KIND for a handle"},
		{"a handle of an unknown kind", thing("h.widget a"),
			`x.def:2: a: there is no kind "widget"`},
		{"a number of a kind", thing("u64.stream a"), "x.def:2: a: want h.KIND for a handle"},
		{"bytes that are no words", thing("u8 a[12]"),
			"x.def:2: a: the number of bytes must be a multiple of 8"},
		{"an array of halves", thing("u32 a[2]"),
			"x.def:2: a: an array of u32: only u8 and u64 have arrays"},
		{"half a word", thing("u32 a"),
			"x.def:3: Thing: half a word at the end: write out the padding"},
		{"half a word in the middle", thing("u32 a", "u64 b"),
			"x.def:4: Thing: b comes after half a word: write out the padding"},
		{"words behind a tail", thing("tail a 3", "u64 b"),
			"x.def:4: Thing: b comes after a tail"},
		{"a tail without a count", thing("tail a"), "x.def:2: a: want COUNT [of SIZE]"},
		{"a tail without a bound", thing("u64 n", "tail a n"),
			"x.def:3: a: no field n with a max, of type u64 or u32"},
		{"a tail of unknown size", thing("u64 n max 1", "tail a n of MUCH"),
			"x.def:3: a: MUCH is neither a number, a constant nor a structure"},
		{"a tail in an answer", "command Thing {\n} answer {\ntail a 1\n",
			"x.def:3: a: an answer has no tail"},
		{"a buffer in an answer", "command Thing {\n} answer {\nin a\n",
			"x.def:3: a: only a command has buffers"},
		{"a buffer in a record", "record r {\nin a\n", "x.def:2: a: only a command has buffers"},
		{"unknown check", thing("u64 a odd 3"), `x.def:2: a: unknown check "odd"`},
		{"a check without a value", thing("u64 a max"), `x.def:2: a: unknown check "max"`},
		{"a check of another type", thing("in a min 3"), `x.def:2: a: unknown check "min"`},
		{"a buffer of most nothing", thing("in a max 3"), "x.def:2: a: a max needs of SIZE"},
		{"unknown set", thing("u64 a set missing"), "x.def:2: a: there is no set missing"},
		{"unknown constant", thing("u64 a max MISSING"),
			"x.def:2: a: MISSING is neither a number, a constant nor a structure"},
		{"optional without a size", thing("in a optional"),
			"x.def:2: a: optional needs a size: without one it is optional anyway"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseSmall(tt.text); err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}
