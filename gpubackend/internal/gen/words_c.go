// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
)

// whereC writes where each word of a command and of its answer stands. The fake worker with which
// the library is tested needs that; the library itself only appends words.
func whereC(a *api, c *commands) []byte {
	b := cFile("Where the words of commands and answers stand.")
	b.WriteString("#ifndef PARACUDA_WORDS_H\n#define PARACUDA_WORDS_H\n\n")
	for _, f := range a.remote() {
		words, answer := f.spots()
		spotsC(b, "AT", f.symbol, words)
		spotsC(b, "OUT", f.symbol, answer)
	}
	for _, l := range c.layouts {
		if !l.record {
			spotsC(b, "AT", l.name, fieldSpots(l.fields, l.words()))
			spotsC(b, "OUT", l.name, fieldSpots(l.answer, 0))
		}
	}
	b.WriteString("#endif\n")
	return b.Bytes()
}

// spot is a name for the place of a word, of half a word, or of the first tail.
type spot struct {
	name string
	at   int
}

// spots are the spots of a call's words and of its answer's.
func (f function) spots() (words, answer []spot) {
	at := 0
	for _, p := range f.params {
		switch {
		case p.word():
			words = append(words, spot{p.name, at})
			at++
		case p.buffer():
			words = append(words, spot{p.name, at}, spot{p.name + "_bytes", at + 1})
			at += 2
		}
	}
	for i, name := range f.cCall().outs {
		answer = append(answer, spot{name, i})
	}
	return words, answer
}

// fieldSpots are the spots of fields. The first tail begins after the words; the places of later
// ones depend on the earlier.
func fieldSpots(fields []field, words int) (list []spot) {
	tailed := false
	for _, f := range fields {
		switch {
		case f.typ == "tail" && tailed:
		case f.typ == "tail":
			list, tailed = append(list, spot{f.name, words}), true
		case f.typ == "u32" && f.high:
			list = append(list, spot{f.name + "_HALF", 2*f.word + 1})
		case f.typ == "u32":
			list = append(list, spot{f.name + "_HALF", 2 * f.word})
		case f.typ == "in" || f.typ == "out":
			list = append(list, spot{f.name, f.word}, spot{f.name + "_bytes", f.word + 1})
		default:
			list = append(list, spot{f.name, f.word})
		}
	}
	return list
}

func spotsC(b *bytes.Buffer, prefix, command string, list []spot) {
	if len(list) == 0 {
		return
	}
	b.WriteString("enum {\n")
	for _, p := range list {
		fmt.Fprintf(b, "\t%s_%s_%s = %d,\n", prefix, command, p.name, p.at)
	}
	b.WriteString("};\n\n")
}
