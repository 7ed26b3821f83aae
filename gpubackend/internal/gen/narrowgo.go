// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// goTab is how many columns a tab has in Go.
const goTab = 4

// narrowGo formats a program, and wraps its comments. A comment behind code that makes its line too
// wide goes before it.
func narrowGo(text []byte) ([]byte, error) {
	text, err := format.Source(text)
	if err != nil {
		return nil, err
	}
	narrower, err := narrowComments(string(text))
	if err != nil || narrower == string(text) {
		return text, err
	}
	return narrowGo([]byte(narrower)) // what moved may have made others move
}

// narrowComments wraps and moves the comments of a formatted program. Only those of prose are.
func narrowComments(text string) (string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.ParseComments)
	if err != nil {
		return "", err
	}
	lines := strings.Split(text, "\n")
	for _, group := range slices.Backward(file.Comments) {
		first := fset.Position(group.Pos())
		last := fset.Position(group.End()).Line
		at := lines[first.Line-1 : last]
		if !isProse(group) || !slices.ContainsFunc(at, tooWideGo) {
			continue
		}
		code := at[0][:first.Column-1]
		indent := code[:len(code)-len(strings.TrimLeft(code, "\t"))]
		wrapped := wrapGo(group, indent)
		if code = strings.TrimRight(code, " \t"); code != "" {
			wrapped = append(wrapped, code)
		}
		lines = slices.Replace(lines, first.Line-1, last, wrapped...)
	}
	return strings.Join(lines, "\n"), nil
}

// isProse says whether a comment has no directives, empty lines or lines that are indented.
func isProse(group *ast.CommentGroup) bool {
	for _, c := range group.List {
		if text, ok := strings.CutPrefix(c.Text, "// "); !ok || text[0] == ' ' {
			return false
		}
	}
	return true
}

// wrapGo makes one paragraph of a comment, each of whose lines begins with //.
func wrapGo(group *ast.CommentGroup, indent string) []string {
	var text []string
	for _, c := range group.List {
		text = append(text, strings.TrimPrefix(c.Text, "//"))
	}
	wide := strings.Repeat(" ", goTab*len(indent)) + "// "
	wrapped := wrap(strings.Join(text, " "), wide, wide)
	for i, l := range wrapped {
		wrapped[i] = indent + strings.TrimLeft(l, " ")
	}
	return wrapped
}

func tooWideGo(l string) bool {
	code := strings.TrimLeft(l, "\t")
	return tooWide(strings.Repeat(" ", goTab*(len(l)-len(code))) + code)
}
