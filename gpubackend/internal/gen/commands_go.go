// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// commandsGo writes package command: the types of commands, answers and records, and their decoders
// and encoders.
func commandsGo(c *commands) []byte {
	b, head := &bytes.Buffer{}, &bytes.Buffer{}
	b.WriteString("\n// The constants of gpubackend/api/commands.def.\nconst (\n")
	for _, k := range c.constants {
		fmt.Fprintf(b, "%s = %d %s\n", camel(k.name), k.value, goComment(k.comment))
	}
	b.WriteString(")\n")
	for _, l := range c.layouts {
		commandType(b, l)
		if l.record {
			recordDecoder(b, l)
		} else {
			commandDecoder(b, l)
		}
		layoutEncoder(b, l)
		answerPut(b, l)
	}
	layoutTable(b, c)
	imports := []string{"encoding/binary", "", "github.com/paracuda/paracuda/gpubackend/allowed"}
	for _, p := range []string{"cudaabi", "wire"} {
		if bytes.Contains(b.Bytes(), []byte(" "+p+".")) ||
			bytes.Contains(b.Bytes(), []byte("*"+p+".")) {
			imports = append(imports, "github.com/paracuda/paracuda/gpubackend/"+p)
		}
	}
	goHeader(head, "command", imports...)
	return append(head.Bytes(), b.Bytes()...)
}

func commandType(b *bytes.Buffer, l layout) {
	name, what := l.goType(), "command"
	if l.record {
		what = "record"
	}
	fmt.Fprintf(b, "\n// %s is %s %s of commands.def.\n", name, what, l.name)
	comments(b, "//", l.doc)
	fmt.Fprintf(b, "type %s struct {\n", name)
	for _, f := range l.fields {
		fmt.Fprintf(b, "%s %s %s\n", camel(f.name), f.goFieldType(), goComment(f.comment))
	}
	b.WriteString("}\n")
	fmt.Fprintf(b, "\n// %sWords is how many words %s has before its tails.\nconst %sWords = %d\n",
		name, name, name, l.words())
	if l.tagged {
		fmt.Fprintf(b, "\n// %sTag is the first word of a %s.\nconst %sTag = %d\n", name, l.name,
			name, l.tag)
	}
}

func (f field) goFieldType() string {
	array := ""
	if f.count > 0 {
		array = fmt.Sprintf("[%d]", f.count)
	}
	switch f.typ {
	case "u32":
		return "uint32"
	case "u8":
		return array + "byte"
	case "in", "out":
		return "Buffer"
	case "tail":
		return "[]byte"
	}
	return array + "uint64"
}

// commandDecoder writes the decoder of a command: a method, and a function that returns its result.
func commandDecoder(b *bytes.Buffer, l layout) {
	name := l.goType()
	words, body := "words", "body"
	if l.words() == 0 {
		words = "_"
	}
	if len(l.tails()) == 0 {
		body = "_"
	}
	fmt.Fprintf(b,
		"\n// Decode reads and checks %s. words is a copy of the words, "+
			"body all behind the header.\n", l.name)
	fmt.Fprintf(b, "func (c *%s) Decode(%s []uint64, %s []byte) bool {\n", name, words, body)
	var short []string
	if words != "_" {
		short = append(short, fmt.Sprintf("len(words) < %sWords", name))
	}
	if body != "_" {
		short = append(short, fmt.Sprintf("len(body) < 8*%sWords", name))
	}
	refuse(b, short)
	decodeFields(b, l, func(i int) string { return fmt.Sprintf("words[%d]", i) })
	decodeTails(b, l, "body")
	b.WriteString("return true\n}\n")
	fmt.Fprintf(b,
		"\n// Decode%s returns what Decode reads.\n"+
			"func Decode%s(words []uint64, body []byte) (c %s, ok bool) {\n", name, name, name)
	fmt.Fprintf(b, "if !c.Decode(words, body) {\nreturn %s{}, false\n}\nreturn c, true\n}\n", name)
}

// recordDecoder writes the decoder of a record.
func recordDecoder(b *bytes.Buffer, l layout) {
	name := l.goType()
	fmt.Fprintf(b, "\n// Decode reads and checks a %s. What is behind it is not looked at.\n",
		l.name)
	fmt.Fprintf(b, "func (c *%s) Decode(b []byte) bool {\n", name)
	word := func(i int) string { return fmt.Sprintf("binary.LittleEndian.Uint64(b[%d:])", 8*i) }
	short := []string{fmt.Sprintf("len(b) < 8*%sWords", name)}
	if l.tagged {
		short = append(short, fmt.Sprintf("%s != %sTag", word(0), name))
	}
	refuse(b, short)
	decodeFields(b, l, word)
	decodeTails(b, l, "b")
	b.WriteString("return true\n}\n")
	fmt.Fprintf(b,
		"\n// Decode%s returns what Decode reads.\nfunc Decode%s(b []byte) (c %s, ok bool) {\n",
		name, name, name)
	fmt.Fprintf(b, "if !c.Decode(b) {\nreturn %s{}, false\n}\nreturn c, true\n}\n", name)
}

// refuse writes the end of a decoder that finds one of some faults.
func refuse(b *bytes.Buffer, faults []string) {
	if len(faults) > 0 {
		fmt.Fprintf(b, "if %s {\nreturn false\n}\n", strings.Join(faults, " || "))
	}
}

func decodeFields(b *bytes.Buffer, l layout, word func(int) string) {
	var faults []string
	for _, f := range l.fields {
		name := "c." + camel(f.name)
		decodeField(b, f, name, word)
		faults = append(faults, f.goFaults(name)...)
	}
	refuse(b, faults)
}

func decodeField(b *bytes.Buffer, f field, name string, word func(int) string) {
	switch {
	case f.typ == "u32" && f.high:
		fmt.Fprintf(b, "%s = uint32(%s >> 32)\n", name, word(f.word))
	case f.typ == "u32":
		fmt.Fprintf(b, "%s = uint32(%s)\n", name, word(f.word))
	case f.typ == "u8":
		for i := range f.count / 8 {
			fmt.Fprintf(b, "binary.LittleEndian.PutUint64(%s[%d:], %s)\n", name, 8*i,
				word(f.word+i))
		}
	case f.buffer():
		fmt.Fprintf(b, "%s = NewBuffer(%s, %s)\n", name, word(f.word), word(f.word+1))
	case f.typ == "tail":
	case f.count > 0:
		for i := range f.count {
			fmt.Fprintf(b, "%s[%d] = %s\n", name, i, word(f.word+i))
		}
	default:
		fmt.Fprintf(b, "%s = %s\n", name, word(f.word))
	}
}

// goFaults are the conditions under which a field's value is refused.
func (f field) goFaults(name string) (list []string) {
	switch {
	case f.buffer() && f.element.known():
		list = append(list, fmt.Sprintf("%s.Bytes%%%s != 0", name, f.element.inGo))
		if f.max.known() {
			list = append(list, fmt.Sprintf("%s.Bytes > %s*%s", name, f.max.inGo, f.element.inGo))
		}
	case f.max.known():
		list = append(list, name+" > "+f.max.inGo)
	}
	if f.min.known() {
		list = append(list, name+" < "+f.min.inGo)
	}
	if f.set != "" {
		list = append(list, fmt.Sprintf("!allowed.%s.Has(%s)", camel(f.set), wide(f, name)))
	}
	if f.size.known() {
		fault := fmt.Sprintf("%s.Bytes != %s", name, f.size.inGo)
		if f.optional {
			fault = fmt.Sprintf("%s && %s.Kind != 0", fault, name)
		}
		list = append(list, fault)
	}
	return list
}

func wide(f field, name string) string {
	if f.typ == "u32" {
		return "uint64(" + name + ")"
	}
	return name
}

func decodeTails(b *bytes.Buffer, l layout, of string) {
	tails := l.tails()
	if len(tails) == 0 {
		return
	}
	fmt.Fprintf(b, "rest, ok := %s[8*%sWords:], false\n", of, l.goType())
	for i, f := range tails {
		rest := "rest"
		if i == len(tails)-1 {
			rest = "_"
		}
		fmt.Fprintf(b, "if c.%s, %s, ok = cut(rest, %s); !ok {\nreturn false\n}\n", camel(f.name),
			rest, f.goBytes())
	}
}

// goBytes is the size of a tail.
func (f field) goBytes() string {
	count := f.times.inGo
	if f.counted != "" {
		count = "uint64(c." + camel(f.counted) + ")"
	}
	switch {
	case f.element.value == 1:
		return count
	case f.times.value == 1:
		return f.element.inGo
	}
	return count + "*" + f.element.inGo
}

// layoutEncoder writes the method that appends a layout's words and tails.
func layoutEncoder(b *bytes.Buffer, l layout) {
	name := l.goType()
	fmt.Fprintf(b,
		"\n// Append writes the words and tails of c behind b.\n"+
			"func (c *%s) Append(b []byte) []byte {\n", name)
	if l.tagged {
		fmt.Fprintf(b, "b = binary.LittleEndian.AppendUint64(b, %sTag)\n", name)
	}
	for _, f := range l.fields {
		encodeField(b, f, "c."+camel(f.name))
	}
	for i, f := range l.tails() {
		if i > 0 {
			b.WriteString("b = pad(b)\n")
		}
		fmt.Fprintf(b, "b = append(b, c.%s...)\n", camel(f.name))
	}
	b.WriteString("return b\n}\n")
}

func encodeField(b *bytes.Buffer, f field, name string) {
	switch {
	case f.typ == "tail":
	case f.typ == "u32":
		fmt.Fprintf(b, "b = binary.LittleEndian.AppendUint32(b, %s)\n", name)
	case f.typ == "u8":
		fmt.Fprintf(b, "b = append(b, %s[:]...)\n", name)
	case f.buffer():
		fmt.Fprintf(b, "b = %s.append(b)\n", name)
	case f.count > 0:
		fmt.Fprintf(b, "for _, x := range %s {\nb = binary.LittleEndian.AppendUint64(b, x)\n}\n",
			name)
	default:
		fmt.Fprintf(b, "b = binary.LittleEndian.AppendUint64(b, %s)\n", name)
	}
}

// answerPut writes the answer's type and the method that puts it into the words of a slot.
func answerPut(b *bytes.Buffer, l layout) {
	if len(l.answer) == 0 {
		return
	}
	name := l.goType() + "Answer"
	fmt.Fprintf(b, "\n// %s is the answer to %s.\ntype %s struct {\n", name, l.goType(), name)
	for _, f := range l.answer {
		fmt.Fprintf(b, "%s %s %s\n", camel(f.name), f.goFieldType(), goComment(f.comment))
	}
	fmt.Fprintf(b,
		"}\n\n// Put writes the answer into a slot's words and returns how many there are.\n")
	fmt.Fprintf(b, "func (a %s) Put(words *Words) int {\n", name)
	for i := 0; i < len(l.answer); i++ {
		f := l.answer[i]
		x := "a." + camel(f.name)
		switch {
		case f.typ == "u32":
			i++
			fmt.Fprintf(b, "words[%d] = uint64(%s) | uint64(a.%s)<<32\n", f.word, x,
				camel(l.answer[i].name))
		case f.typ == "u8":
			for k := range f.count / 8 {
				fmt.Fprintf(b, "words[%d] = binary.LittleEndian.Uint64(%s[%d:])\n", f.word+k, x,
					8*k)
			}
		case f.count > 0:
			for k := range f.count {
				fmt.Fprintf(b, "words[%d] = %s[%d]\n", f.word+k, x, k)
			}
		default:
			fmt.Fprintf(b, "words[%d] = %s\n", f.word, x)
		}
	}
	fmt.Fprintf(b, "return %d\n}\n", wordsOf(l.answer))
	fmt.Fprintf(b,
		"\n// Read reads the answer from a slot's words.\nfunc (a *%s) Read(words *Words) {\n",
		name)
	for _, f := range l.answer {
		decodeField(b, f, "a."+camel(f.name),
			func(i int) string { return fmt.Sprintf("words[%d]", i) })
	}
	b.WriteString("}\n")
}

// layoutTable writes what the dispatcher must know of each command, by its number.
func layoutTable(b *bytes.Buffer, c *commands) {
	b.WriteString("\n// Layouts are the commands of commands.def, by their numbers.\n" +
		"var Layouts = map[uint16]Layout{\n")
	for _, l := range c.layouts {
		if l.record {
			continue
		}
		fmt.Fprintf(b, "%d: {Name: %q, Words: %sWords, NoContext: %v},\n", l.number, l.name,
			l.goType(), l.noctx)
	}
	b.WriteString("}\n")
}

// roundTripsGo writes, for package command's tests, functions that decode each layout and encode it
// again.
func roundTripsGo(c *commands) []byte {
	b := &bytes.Buffer{}
	goHeader(b, "command")
	b.WriteString("\n// roundTrips decode each command and record, and encode what they got.\n")
	b.WriteString("var roundTrips = []struct {\nname string\n" +
		"again func(words []uint64, body []byte) ([]byte, bool)\n}{\n")
	for _, l := range c.layouts {
		arguments := "words, body"
		if l.record {
			arguments = "body"
		}
		fmt.Fprintf(b,
			"{%q, func(words []uint64, body []byte) ([]byte, bool) {\nc, ok := Decode%s(%s)\n"+
				"return c.Append(nil), ok\n}},\n",
			l.name, l.goType(), arguments)
	}
	b.WriteString("}\n")
	return b.Bytes()
}
