// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Up to so many fields are a function's parameters, and so many words of an answer are pointers; more are a structure.
const (
	maxParameters = 4
	maxOuts       = 2
)

// commandsC writes what sends the commands of commands.def, and what writes and reads its records.
func commandsC(c *commands) []byte {
	b := &bytes.Buffer{}
	b.WriteString(strings.Replace(cFile("Sends the commands of gpubackend/api/commands.def; writes and reads its records.",
		"context/zz_generated_calls.h", "transport/channel.h").String(),
		"#include", "#ifndef PARACUDA_COMMANDS_H\n#define PARACUDA_COMMANDS_H\n\n#include <string.h>\n\n#include", 1))
	b.WriteString("enum {\n")
	for _, k := range c.constants {
		fmt.Fprintf(b, "\tPARACUDA_%s = %d,%s\n", k.name, k.value, cComment(k.comment))
	}
	b.WriteString("};\n")
	for _, l := range c.layouts {
		if l.record {
			recordC(b, l)
		} else {
			commandC(b, l)
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// few says whether the fields are parameters of a function.
func few(fields []field, most int) bool {
	for _, f := range fields {
		if f.typ == "u32" || f.typ == "tail" || f.count > 0 {
			return false
		}
	}
	return len(fields) <= most
}

func structC(b *bytes.Buffer, name string, fields []field, record bool) {
	fmt.Fprintf(b, "struct %s {\n", name)
	for _, f := range fields {
		fmt.Fprintf(b, "\t%s%s\n", f.cDeclaration(record), strings.Replace(cComment(f.comment), " /*", "\t/*", 1))
	}
	b.WriteString("};\n")
}

func (f field) cDeclaration(record bool) string {
	array := ""
	if f.count > 0 {
		array = fmt.Sprintf("[%d]", f.count)
	}
	switch f.typ {
	case "u32":
		return "uint32_t " + f.name + ";"
	case "u8":
		return "uint8_t " + f.name + array + ";"
	case "in", "out":
		return "struct argument " + f.name + ";"
	case "tail":
		return "const void *" + f.name + ";"
	}
	return "uint64_t " + f.name + array + ";"
}

func docLines(b *bytes.Buffer, doc []string) {
	b.WriteString("\n")
	if len(doc) > 0 {
		fmt.Fprintf(b, "/* %s */\n", strings.Join(doc, "\n * "))
	}
}

// op is the command's number in C.
func (l layout) op() string {
	if strings.ToUpper(l.name) == l.name {
		return "PARACUDA_OP_" + l.name
	}
	return "OP_" + l.name
}

// commandC writes a command's structures, what fills a request with it, and what sends it and waits for the answer.
func commandC(b *bytes.Buffer, l layout) {
	docLines(b, l.doc)
	params, values := []string{"struct request *r"}, "r"
	access := ""
	if few(l.fields, maxParameters) {
		for _, f := range l.fields {
			params = append(params, strings.TrimSuffix(f.cDeclaration(false), ";"))
			values += ", " + f.name
		}
	} else {
		structC(b, "args_"+l.name, l.fields, false)
		params = append(params, "const struct args_"+l.name+" *a")
		values += ", a"
		access = "a->"
	}
	answer := answerC(b, l)
	fmt.Fprintf(b, "static inline void request_%s(%s)\n{\n\trequest_init(r, %s);\n", l.name, strings.Join(params, ", "), l.op())
	if l.exact {
		b.WriteString("\tr->exact = true;\n")
	}
	wordsC(b, l.fields, access)
	b.WriteString("}\n\n")
	outs, read := callOuts(l, answer)
	fmt.Fprintf(b, "static inline CUresult call_%s(%s)\n{\n", l.name, orVoid(append(params[1:], outs...)))
	b.WriteString("\tstruct request r;\n")
	if len(l.answer) == 0 {
		fmt.Fprintf(b, "\n\trequest_%s(&%s);\n\treturn channel_call(&r, NULL, 0);\n}\n", l.name, values)
		return
	}
	n := wordsOf(l.answer)
	fmt.Fprintf(b, "\tuint64_t word[%d];\n\tCUresult result;\n\n\trequest_%s(&%s);\n", n, l.name, values)
	fmt.Fprintf(b, "\tresult = channel_call(&r, word, %d);\n%s\treturn result;\n}\n", n, read)
}

func orVoid(params []string) string {
	if len(params) == 0 {
		return "void"
	}
	return strings.Join(params, ", ")
}

// answerC writes the structure of an answer and what reads it, if it needs one, and says whether it does.
func answerC(b *bytes.Buffer, l layout) bool {
	if few(l.answer, maxOuts) {
		return false
	}
	structC(b, "answer_"+l.name, l.answer, false)
	fmt.Fprintf(b, "static inline void read_%s(struct answer_%s *a, const uint64_t *word)\n{\n", l.name, l.name)
	readsC(b, l.answer, "a->")
	b.WriteString("}\n\n")
	return true
}

// callOuts are the parameters for an answer, and the lines that set what they point at.
func callOuts(l layout, structure bool) (params []string, read string) {
	if structure {
		return []string{"struct answer_" + l.name + " *answer"}, fmt.Sprintf("\tread_%s(answer, word);\n", l.name)
	}
	for _, f := range l.answer {
		params = append(params, "uint64_t *out_"+f.name)
		read += fmt.Sprintf("\t*out_%s = word[%d];\n", f.name, f.word)
	}
	return params, read
}

// wordsC puts fields into a request. What fails a check isn't sent.
func wordsC(b *bytes.Buffer, fields []field, access string) {
	var faults []string
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		x := access + f.name
		faults = append(faults, f.cFaults(x)...)
		switch {
		case f.typ == "u32":
			i++
			y := access + fields[i].name
			faults = append(faults, fields[i].cFaults(y)...)
			fmt.Fprintf(b, "\trequest_word(r, %s | (uint64_t)%s << 32);\n", x, y)
		case f.buffer():
			fmt.Fprintf(b, "\trequest_argument(r, %s);\n", x)
		case f.typ == "tail":
			fmt.Fprintf(b, "\trequest_tail(r, %s, %s);\n", x, f.cBytes(access))
		case f.typ == "u8":
			fmt.Fprintf(b, "\trequest_bytes(r, %s, %d);\n", x, f.count)
		case f.count > 0:
			fmt.Fprintf(b, "\trequest_bytes(r, %s, %d);\n", x, 8*f.count)
		default:
			fmt.Fprintf(b, "\trequest_word(r, %s);\n", x)
		}
	}
	if len(faults) > 0 {
		fmt.Fprintf(b, "\tif (%s)\n\t\tr->refused = true;\n", strings.Join(faults, " || "))
	}
}

// readsC sets fields from words.
func readsC(b *bytes.Buffer, fields []field, access string) {
	for _, f := range fields {
		x := access + f.name
		switch {
		case f.typ == "u32" && f.high:
			fmt.Fprintf(b, "\t%s = (uint32_t)(word[%d] >> 32);\n", x, f.word)
		case f.typ == "u32":
			fmt.Fprintf(b, "\t%s = (uint32_t)word[%d];\n", x, f.word)
		case f.count > 0:
			fmt.Fprintf(b, "\tmemcpy(%s, &word[%d], %d);\n", x, f.word, 8*f.words())
		case f.typ != "tail":
			fmt.Fprintf(b, "\t%s = word[%d];\n", x, f.word)
		}
	}
}

// cFaults are the conditions under which a field's value is refused.
func (f field) cFaults(x string) (list []string) {
	if f.max != "" {
		list = append(list, x+" > "+cNumber(f.max))
	}
	if f.min != "" {
		list = append(list, x+" < "+cNumber(f.min))
	}
	if f.set != "" {
		list = append(list, fmt.Sprintf("!is_%s(%s)", f.set, x))
	}
	if f.size != "" {
		fault := fmt.Sprintf("%s.bytes != %s", x, cNumber(f.size))
		if f.optional {
			fault = fmt.Sprintf("(%s && argument_given(%s))", fault, x)
		}
		list = append(list, fault)
	}
	return list
}

func cNumber(s string) string {
	if isName(s) {
		return "PARACUDA_" + s
	}
	return s
}

// cBytes is the size of a tail.
func (f field) cBytes(access string) string {
	count := f.counted
	if isName(count) && strings.ToUpper(count) != count {
		count = access + count
	} else {
		count = cNumber(count)
	}
	switch {
	case f.element == "1":
		return count
	case count == "1":
		return cNumber(f.element)
	}
	return "(size_t)" + count + " * " + cNumber(f.element)
}
