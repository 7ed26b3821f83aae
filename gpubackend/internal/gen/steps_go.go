// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// stepsGo writes types for the words of functions around which the worker has steps, and of their
// answers, with decoders.
func stepsGo(a *api) []byte {
	b := &bytes.Buffer{}
	goHeader(b, "command")
	for _, f := range a.remote() {
		if f.step {
			stepDecoder(b, f)
			answerDecoder(b, f)
		}
	}
	return b.Bytes()
}

// stepDecoder writes the type and decoder of a function. Parameters that only the answer has are
// left out.
func stepDecoder(b *bytes.Buffer, f function) {
	fields, reads, word := &bytes.Buffer{}, &bytes.Buffer{}, 0
	for _, p := range f.params {
		name := strings.ToUpper(p.name[:1]) + p.name[1:]
		switch {
		case p.word():
			fmt.Fprintf(fields, "%s uint64\n", name)
			fmt.Fprintf(reads, "c.%s = words[%d]\n", name, word)
			word++
		case p.buffer():
			fmt.Fprintf(fields, "%s Buffer\n", name)
			fmt.Fprintf(reads, "c.%s = NewBuffer(words[%d], words[%d])\n", name, word, word+1)
			word += 2
		}
	}
	name := f.method()
	fmt.Fprintf(b, "\n// %s is what %s is called with.\ntype %s struct {\n%s}\n", name, f.symbol,
		name, fields)
	fmt.Fprintf(b, "\n// Decode%s reads its words. The handler checks what they mean.\n", name)
	fmt.Fprintf(b, "func Decode%s(words []uint64, _ []byte) (c %s, ok bool) {\n", name, name)
	fmt.Fprintf(b, "if len(words) < %d {\nreturn c, false\n}\n%sreturn c, true\n}\n", word, reads)
}

// answerDecoder writes those of an answer with words, which a step reads after the handler has run.
func answerDecoder(b *bytes.Buffer, f function) {
	answers := f.cCall().outs
	if len(answers) == 0 {
		return
	}
	fields, reads := &bytes.Buffer{}, &bytes.Buffer{}
	for i, name := range answers {
		name = strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_count", "Count")
		fmt.Fprintf(fields, "%s uint64\n", name)
		fmt.Fprintf(reads, "a.%s = words[%d]\n", name, i)
	}
	name := f.method() + "Answer"
	fmt.Fprintf(b, "\n// %s is what %s answers.\n", name, f.symbol)
	fmt.Fprintf(b, "type %s struct {\n%s}\n", name, fields)
	fmt.Fprintf(b, "\n// Decode%s reads its words: ok says that all are there.\n", name)
	fmt.Fprintf(b, "func Decode%s(words []uint64) (a %s, ok bool) {\n", name, name)
	fmt.Fprintf(b, "if len(words) < %d {\nreturn a, false\n}\n", len(answers))
	fmt.Fprintf(b, "%sreturn a, true\n}\n", reads)
}
