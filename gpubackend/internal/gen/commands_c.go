// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Up to so many fields are a function's parameters, and so many words of an answer are pointers;
// more are a structure.
const (
	maxParameters = 4
	maxOuts       = 2
)

// header is a header of the library's.
func header(guard, doc string, includes ...string) *bytes.Buffer {
	b := &bytes.Buffer{}
	b.WriteString(strings.Replace(cFile(doc, includes...).String(),
		"#include", fmt.Sprintf("#ifndef PARACUDA_%s_H\n#define PARACUDA_%s_H\n\n#include", guard,
			guard), 1))
	return b
}

// layoutsC writes what needs no context: numbers, sets, constants, and the functions that write and
// read the words of commands and records.
func layoutsC(a *api, c *commands) []byte {
	b := header("LAYOUTS", "Numbers of commands, what may be in them, and their words; records.",
		"transport/channel.h")
	b.WriteString("enum {\n")
	for _, f := range a.functions {
		if f.number != 0 {
			fmt.Fprintf(b, "\tOP_%s = %d,\n", f.symbol, f.number)
		}
	}
	b.WriteString("};\n" + setsC(a))
	b.WriteString("\n/* The constants of gpubackend/api/commands.def. */\nenum {\n")
	for _, k := range c.constants {
		fmt.Fprintf(b, "\tPARACUDA_%s = %d,%s\n", k.name, k.value, cComment(k.comment))
	}
	b.WriteString("};\n")
	for _, l := range c.layouts {
		if l.record {
			recordC(b, l)
		} else {
			layoutC(b, l)
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// commandsC writes the functions that send the commands of commands.def in the current context.
func commandsC(c *commands) []byte {
	b := header("COMMANDS", "Sends the commands of gpubackend/api/commands.def.",
		"context/zz_generated_calls.h")
	for _, l := range c.layouts {
		if !l.record {
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

func structC(b *bytes.Buffer, name string, fields []field) {
	fmt.Fprintf(b, "struct %s {\n", name)
	for _, f := range fields {
		fmt.Fprintf(b, "\t%s%s\n", f.cDeclaration(),
			strings.Replace(cComment(f.comment), " /*", "\t/*", 1))
	}
	b.WriteString("};\n")
}

func (f field) cDeclaration() string {
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

// cParameters are the parameters for a command's fields, and the arguments that pass them on. Too
// many are passed as a structure.
func (l layout) cParameters() (params []string, values string) {
	if !few(l.fields, maxParameters) {
		return []string{"const struct args_" + l.name + " *a"}, ", a"
	}
	for _, f := range l.fields {
		params = append(params, strings.TrimSuffix(f.cDeclaration(), ";"))
		values += ", " + f.name
	}
	return params, values
}

// layoutC writes a command's structures, and the function that puts its words into a request.
func layoutC(b *bytes.Buffer, l layout) {
	docLines(b, l.doc)
	access := ""
	if !few(l.fields, maxParameters) {
		structC(b, "args_"+l.name, l.fields)
		b.WriteString("\n")
		access = "a->"
	}
	answerC(b, l)
	params, _ := l.cParameters()
	fmt.Fprintf(b, "static inline void words_%s(%s)\n{\n", l.name,
		strings.Join(append([]string{"struct request *r"}, params...), ", "))
	if l.exact {
		b.WriteString("\tr->exact = true;\n")
	}
	wordsC(b, l.fields, access)
	if len(l.fields) == 0 && !l.exact {
		b.WriteString("\t(void)r;\n")
	}
	b.WriteString("}\n")
}

// commandC writes the function that begins a command in the current context, and the one that sends
// it and waits for the answer.
func commandC(b *bytes.Buffer, l layout) {
	docLines(b, l.doc)
	params, values := l.cParameters()
	fmt.Fprintf(b, "static inline void request_%s(%s)\n{\n", l.name,
		strings.Join(append([]string{"struct request *r"}, params...), ", "))
	fmt.Fprintf(b, "\trequest_init(r, %s);\n\twords_%s(r%s);\n}\n\n", l.op(), l.name, values)
	outs, read := callOuts(l)
	fmt.Fprintf(b, "static inline CUresult call_%s(%s)\n{\n", l.name,
		orVoid(append(params, outs...)))
	b.WriteString("\tstruct request r;\n")
	if len(l.answer) == 0 {
		fmt.Fprintf(b, "\n\trequest_%s(&r%s);\n\treturn channel_call(&r, NULL, 0);\n}\n", l.name,
			values)
		return
	}
	n := wordsOf(l.answer)
	fmt.Fprintf(b, "\tuint64_t word[%d];\n\tCUresult result;\n\n\trequest_%s(&r%s);\n", n, l.name,
		values)
	fmt.Fprintf(b, "\tresult = channel_call(&r, word, %d);\n%s\treturn result;\n}\n", n, read)
}

func orVoid(params []string) string {
	if len(params) == 0 {
		return "void"
	}
	return strings.Join(params, ", ")
}

// answerC writes the structure of an answer and the function that reads it, if it needs one.
func answerC(b *bytes.Buffer, l layout) {
	if few(l.answer, maxOuts) {
		return
	}
	structC(b, "answer_"+l.name, l.answer)
	fmt.Fprintf(b, "\nstatic inline void read_%s(struct answer_%s *a, const uint64_t *word)\n{\n",
		l.name, l.name)
	readsC(b, l.answer, "a->")
	b.WriteString("}\n\n")
}

// callOuts are the parameters for an answer, and the lines that set what they point at.
func callOuts(l layout) (params []string, read string) {
	if !few(l.answer, maxOuts) {
		return []string{"struct answer_" + l.name + " *answer"},
			fmt.Sprintf("\tread_%s(answer, word);\n", l.name)
	}
	for _, f := range l.answer {
		params = append(params, "uint64_t *out_"+f.name)
		read += fmt.Sprintf("\t*out_%s = word[%d];\n", f.name, f.word)
	}
	return params, read
}

// wordsC puts fields into a request. A request that fails a check isn't sent.
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
	switch {
	case f.buffer() && f.element.known():
		list = append(list, fmt.Sprintf("%s.bytes %% %s", x, f.element.inC))
		if f.max.known() {
			list = append(list,
				fmt.Sprintf("%s.bytes > (size_t)%s * %s", x, f.max.inC, f.element.inC))
		}
	case f.max.known():
		list = append(list, x+" > "+f.max.inC)
	}
	if f.min.known() {
		list = append(list, x+" < "+f.min.inC)
	}
	if f.set != "" {
		list = append(list, fmt.Sprintf("!is_%s(%s)", f.set, x))
	}
	if f.size.known() {
		fault := fmt.Sprintf("%s.bytes != %s", x, f.size.inC)
		if f.optional {
			fault = fmt.Sprintf("(%s && argument_given(%s))", fault, x)
		}
		list = append(list, fault)
	}
	return list
}

// cBytes is the size of a tail.
func (f field) cBytes(access string) string {
	count := f.times.inC
	if f.counted != "" {
		count = access + f.counted
	}
	switch {
	case f.element.value == 1:
		return count
	case f.times.value == 1:
		return f.element.inC
	}
	return "(size_t)" + count + " * " + f.element.inC
}
