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

// ofTests matches packages of tests and generators, whose types are used nowhere else.
var ofTests = regexp.MustCompile(`test(/|$)|^tests|/internal/|^internal/`)

// TestOneWordNamesOneThing: if several packages have a type of the same name, tests/words.txt says
// what it means in all of them. Interfaces don't count: they are views of others' types. The names
// of rooms are in the table of docs/architecture.md.
func TestOneWordNamesOneThing(t *testing.T) {
	types := map[string]map[string]bool{} // packages by word
	files := sources(t, "*.go")
	for _, file := range files {
		folder := filepath.Dir(file)
		if strings.HasSuffix(file, "_test.go") || ofTests.MatchString(folder) {
			continue
		}
		for _, word := range typesIn(t, read(t, file)) {
			if types[word] == nil {
				types[word] = map[string]bool{}
			}
			types[word][folder] = true
		}
	}
	if len(types) < 400 {
		t.Fatalf("found %d types in %d files, want at least 400", len(types), len(files))
	}
	told := wordsOf(t, string(read(t, "tests/words.txt")))
	rooms := map[string]bool{}
	roomsIn(string(read(t, "docs/architecture.md")), make([]string, 4), rooms)
	for _, word := range slices.Sorted(maps.Keys(types)) {
		n := len(types[word])
		switch {
		case n > 1 && !told[word] && !rooms[word]:
			t.Errorf("%s is a type of %v: rename one of them, or say in tests/words.txt what "+
				"they all are", word, slices.Sorted(maps.Keys(types[word])))
		case n == 1 && told[word]:
			t.Errorf("tests/words.txt has %s, which is a type of one package only", word)
		}
		delete(told, word)
	}
	for word := range told {
		t.Errorf("tests/words.txt has %s, which is no type", word)
	}
}

// typesIn are the names of a file's types, in lower case, without interfaces and aliases.
func typesIn(t *testing.T, text []byte) (words []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			s := s.(*ast.TypeSpec)
			if _, view := s.Type.(*ast.InterfaceType); !view && !s.Assign.IsValid() {
				words = append(words, strings.ToLower(s.Name.Name))
			}
		}
	}
	return words
}

// wordsOf reads lines like "word: what it is", which must be sorted.
func wordsOf(t *testing.T, text string) map[string]bool {
	told, last := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		word, what, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || what == "" || word <= last {
			t.Errorf("tests/words.txt: %q: want WORD: WHAT IT IS, in order after %q", line, last)
		}
		told[word], last = true, word
	}
	return told
}

func TestTypesIn(t *testing.T) {
	const text = "package p\n\ntype Map struct{}\n\ntype (\n\tkind int\n\tView interface{ F() }\n" +
		"\tother = kind\n)\n\nfunc f() { type local int }\n"
	if got := typesIn(t, []byte(text)); !slices.Equal(got, []string{"map", "kind"}) {
		t.Errorf("found %v, want map and kind", got)
	}
}
