// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// workGo writes which functions give the GPU work, which word of each names the stream, and which
// functions set something.
func workGo(a *api, c *commands) []byte {
	b := &bytes.Buffer{}
	goHeader(b, "gpubackend")
	b.WriteString("\n// workStream is the word that names the stream, counted from 1, for each " +
		"function that\n// gives the GPU work.\nvar workStream = [...]uint8{\n")
	for _, f := range a.functions {
		if !f.work {
			continue
		}
		word := "workNowhere"
		if n, ok := streamWord(f, c); ok {
			word = fmt.Sprint(n + 1)
		}
		fmt.Fprintf(b, "Op%s: %s,\n", f.method(), word)
	}
	b.WriteString("}\n")
	settersGo(b, a)
	return b.Bytes()
}

// settersGo writes which functions set something that lasts, and which words tell settings apart.
func settersGo(b *bytes.Buffer, a *api) {
	b.WriteString("\n// Setters are the functions that set something which lasts. The value says " +
		"which of their\n// words tell one setting from another.\n" +
		"func Setters() map[Op][]int {\nreturn map[Op][]int{\n")
	for _, f := range a.functions {
		if !f.sets {
			continue
		}
		words := make([]string, len(f.keys))
		for i, key := range f.keys {
			word, _ := f.wordOf(func(p param) bool { return p.word() && p.name == key })
			words[i] = fmt.Sprint(word)
		}
		fmt.Fprintf(b, "Op%s: {%s},\n", f.method(), strings.Join(words, ", "))
	}
	b.WriteString("}\n}\n")
}

// streamWord is the word of a command in which the stream is.
func streamWord(f function, c *commands) (word int, ok bool) {
	if f.class == "raw" {
		for _, l := range c.layouts {
			if !l.record && l.name == f.symbol {
				return streamField(l)
			}
		}
		return 0, false
	}
	return f.wordOf(func(p param) bool { return p.code == "h" && p.kind == "stream" })
}

// streamField is the same for a command of commands.def.
func streamField(l layout) (word int, ok bool) {
	for _, f := range l.fields {
		if f.typ == "h" && f.kind == "stream" {
			return f.word, true
		}
	}
	return 0, false
}
