// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// commandsDoc writes the layouts for readers.
func commandsDoc(c *commands) []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `<!-- %s -->
# Commands and records

Commands without one word for each parameter, from `+"`gpubackend/api/commands.def`"+`.
All others are in `+"`cuda.def`"+`; docs/protocol.md says how each kind travels.

A word has 64 bits. Where a word has two numbers of 32 bits, the first is the low half.
A buffer is two words, reference and length.
Tails follow the words; each begins at a multiple of 8.

| constant | value | |
|---|---|---|
`, generated)
	for _, k := range c.constants {
		fmt.Fprintf(b, "| %s | %d | %s |\n", k.name, k.value, k.comment)
	}
	b.WriteString("\n## Commands\n")
	for _, l := range c.layouts {
		if !l.record {
			layoutDoc(b, l)
		}
	}
	b.WriteString("\n## Records\n")
	for _, l := range c.layouts {
		if l.record {
			layoutDoc(b, l)
		}
	}
	return b.Bytes()
}

func layoutDoc(b *bytes.Buffer, l layout) {
	switch {
	case !l.record:
		fmt.Fprintf(b, "\n### %d %s\n", l.number, l.name)
	case l.tagged:
		fmt.Fprintf(b, "\n### %s: %d\n", l.name, l.tag)
	default:
		fmt.Fprintf(b, "\n### %s\n", l.name)
	}
	if len(l.doc) > 0 {
		fmt.Fprintf(b, "%s\n", strings.Join(l.doc, "\n"))
	}
	fieldsDoc(b, l.fields)
	if len(l.answer) > 0 {
		b.WriteString("\nAnswer:\n")
		fieldsDoc(b, l.answer)
	}
}

func fieldsDoc(b *bytes.Buffer, fields []field) {
	if len(fields) == 0 {
		return
	}
	b.WriteString("\n| word | name | type | |\n|---|---|---|---|\n")
	for _, f := range fields {
		at := fmt.Sprint(f.word)
		if f.typ == "tail" {
			at = ""
		}
		text := strings.Join(append(f.checksDoc(), f.comment), "; ")
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", at, f.name, f.typeDoc(),
			strings.TrimSuffix(text, "; "))
	}
}

func (f field) typeDoc() string {
	switch {
	case f.typ == "h":
		return "handle: " + f.kind
	case f.typ == "in":
		return "buffer in"
	case f.typ == "out":
		return "buffer out"
	case f.typ == "tail":
		return f.tailDoc()
	case f.count > 0:
		return fmt.Sprintf("%s[%d]", f.typ, f.count)
	}
	return f.typ
}

func (f field) tailDoc() string {
	count := f.counted
	if count == "" {
		count = fmt.Sprint(f.times.value)
	}
	if f.element.value == 1 {
		return count + " bytes"
	}
	return fmt.Sprintf("%s of %d bytes", count, f.element.value)
}

func (f field) checksDoc() (list []string) {
	for _, c := range []struct {
		what  string
		value number
	}{{"at least", f.min}, {"at most", f.max}, {"size", f.size}} {
		if c.value.known() {
			list = append(list, fmt.Sprintf("%s %d", c.what, c.value.value))
		}
	}
	if f.buffer() && f.element.known() {
		list = append(list, fmt.Sprintf("elements of %d bytes", f.element.value))
	}
	if f.set != "" {
		list = append(list, "of set "+f.set)
	}
	if f.optional {
		list = append(list, "may be left out")
	}
	return list
}
