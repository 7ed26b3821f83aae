// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
)

// workGo writes which functions give the GPU work, and which word of each names the stream.
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
	return b.Bytes()
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
	for _, p := range f.params {
		switch {
		case p.code == "h" && p.kind == "stream":
			return word, true
		case p.word():
			word++
		case p.buffer():
			word += 2
		}
	}
	return 0, false
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
