// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// goHeader writes the beginning of a file. An empty import is an empty line.
func goHeader(b *bytes.Buffer, pkg string, imports ...string) {
	fmt.Fprintf(b, "// SPDX-License-Identifier: Apache-2.0\n\n// %s\n\npackage %s\n", generated,
		pkg)
	if len(imports) == 0 {
		return
	}
	b.WriteString("\nimport (\n")
	for _, i := range imports {
		if i == "" {
			b.WriteString("\n")
			continue
		}
		fmt.Fprintf(b, "%q\n", i)
	}
	b.WriteString(")\n")
}

func goName(s string) string {
	switch s {
	case "func", "type", "map":
		return s + "_"
	}
	return s
}

// signature is the Go signature of the driver's method; q qualifies the types of package
// gpubackend.
func signature(f function, q string) string {
	var in, out []string
	for _, p := range f.params {
		switch p.code {
		case "u":
			in = append(in, goName(p.name)+" uint64")
		case "h", "d":
			in = append(in, goName(p.name)+" "+q+p.of.goName)
		case "ib", "ob", "si", "so":
			in = append(in, goName(p.name)+" []byte")
		case "is":
			in = append(in, goName(p.name)+" string")
		case "ih":
			in = append(in, goName(p.name)+" []"+q+p.of.goName)
		case "oh":
			out = append(out, goName(p.name)+" []"+q+p.of.goName)
		case "in":
			in = append(in, goName(p.name)+" *"+q+"Node")
		case "on":
			out = append(out, goName(p.name)+" *"+q+"Node")
		case "o":
			out = append(out, goName(p.name)+" "+q+p.of.goName)
		case "ou":
			out = append(out, goName(p.name)+" uint64")
		}
	}
	out = append(out, "result "+q+"Result")
	return fmt.Sprintf("%s(%s) (%s)", f.method(), strings.Join(in, ", "), strings.Join(out, ", "))
}

func (a *api) remote() []function {
	var r []function
	for _, f := range a.functions {
		if f.class == "call" || f.class == "post" {
			r = append(r, f)
		}
	}
	return r
}

func driverGo(a *api) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// SPDX-License-Identifier: Apache-2.0\n\n// %s\n\npackage gpubackend\n\n",
		generated)
	b.WriteString("// Handles as the device knows them. The guest's own are looked up before " +
		"they get here.\ntype (\n")
	var kinds []string
	for _, k := range a.kinds {
		kinds = append(kinds, k.goName)
	}
	sort.Strings(kinds)
	for _, k := range kinds {
		fmt.Fprintf(&b, "%s uint64\n", k)
	}
	b.WriteString(")\n\n// Op numbers the functions on the wire.\ntype Op uint16\n\n" +
		"// The functions that travel.\nconst (\n")
	for _, f := range a.functions {
		if f.number != 0 {
			fmt.Fprintf(&b, "Op%s Op = %d\n", f.method(), f.number)
		}
	}
	b.WriteString(")\n\nvar opNames = map[Op]string{\n")
	for _, f := range a.functions {
		if f.number != 0 {
			fmt.Fprintf(&b, "%d: %q,\n", f.number, f.symbol)
		}
	}
	b.WriteString("}\n\n")
	functionsGo(&b, a)
	b.WriteString("// Unsupported answers every function with NotSupported. " +
		"A device embeds it and overrides what it has.\ntype Unsupported struct{}\n")
	for _, f := range a.remote() {
		fmt.Fprintf(&b,
			"\n// %s returns NotSupported.\nfunc (Unsupported) %s {\nresult = NotSupported\n"+
				"return\n}\n", f.method(), signature(f, ""))
	}
	return b.Bytes()
}

func dispatchGo(a *api) []byte {
	var b bytes.Buffer
	goHeader(&b, "functions", "github.com/paracuda/paracuda/gpubackend",
		"github.com/paracuda/paracuda/gpubackend/allowed",
		"github.com/paracuda/paracuda/gpubackend/object",
		"github.com/paracuda/paracuda/gpubackend/worker/call",
		"github.com/paracuda/paracuda/gpubackend/worker/handles",
		"github.com/paracuda/paracuda/gpubackend/worker/known")
	b.WriteString("\n// Handlers decode and executes each function of class call or post.\n" +
		"func (f *Functions) Handlers() call.Handlers {\nreturn call.Handlers{\n")
	for _, f := range a.remote() {
		fmt.Fprintf(&b, "gpubackend.Op%s: {Words: %d, NoContext: %v, Run: f.run%s},\n", f.method(),
			f.words(), f.noctx, f.method())
	}
	b.WriteString("}\n}\n")
	for _, f := range a.remote() {
		dispatchFunc(&b, f)
	}
	return b.Bytes()
}

// dispatchFunc writes the handler of one function: decode, look up, call, answer.
func dispatchFunc(b *bytes.Buffer, f function) {
	fmt.Fprintf(b, "\nfunc (f *Functions) run%s(c *call.Call) gpubackend.Result {\n", f.method())
	for _, s := range f.setWords() {
		fmt.Fprintf(b, "if !allowed.%s.Has(c.Word(%d)) {\nreturn gpubackend.InvalidValue\n}\n",
			s.set, s.word)
	}
	dispatchRoom(b, f)
	var args, outs []string
	word := 0
	for i, p := range f.params {
		v := fmt.Sprintf("p%d", i)
		switch p.code {
		case "u":
			args = append(args, fmt.Sprintf("c.Word(%d)", word))
			word++
		case "h", "d":
			fmt.Fprintf(b, "%s, bad := %s\nif bad != 0 {\nreturn bad\n}\n", v, p.of.lookup(word))
			args = append(args, v)
			word++
		case "ib", "ob", "is", "si", "so":
			args = append(args, dispatchBuffer(b, p, v, word))
			word += 2
		case "ih":
			fmt.Fprintf(b, "%s, bad := f.Graphs.Find%ss(c, %d)\nif bad != 0 {\nreturn bad\n}\n", v,
				p.of.goName, word)
			args = append(args, v)
			word += 2
		case "in":
			fmt.Fprintf(b, "%s, bad := f.Graphs.DecodeNode(c, %d)\nif bad != 0 {\nreturn bad\n}\n",
				v, word)
			args = append(args, v)
			word += 2
		case "oh", "on":
			fmt.Fprintf(b,
				"b%d, bad := c.Output(%d)\nif bad != 0 {\nreturn bad\n}\ndefer b%d.Done()\n", i,
				word, i)
			outs = append(outs, v)
			word += 2
		case "o", "ou":
			outs = append(outs, v)
		}
	}
	fmt.Fprintf(b, "%s := f.Driver.%s(%s)\n", strings.Join(append(outs, "result"), ", "),
		f.method(), strings.Join(args, ", "))
	dispatchAnswer(b, f)
	b.WriteString("return result\n}\n")
}

// dispatchBuffer decodes and checks the buffer that a word names, and returns the argument that the
// driver gets.
func dispatchBuffer(b *bytes.Buffer, p param, v string, word int) string {
	fn := map[string]string{"ib": "Input", "ob": "Output", "is": "Text", "si": "Input",
		"so": "Output"}[p.code]
	fmt.Fprintf(b, "%s, bad := c.%s(%d)\nif bad != 0 {\nreturn bad\n}\n", v, fn, word)
	if p.structure() {
		size := v
		if p.code == "so" {
			size += ".Bytes"
		}
		fmt.Fprintf(b, "if len(%s) != %s {\nreturn gpubackend.InvalidValue\n}\n", size, p.kind)
	}
	if p.test != "" {
		fmt.Fprintf(b, "if bad := known.%s(%s); bad != 0 {\nreturn bad\n}\n", p.test, v)
	}
	if p.code == "ob" || p.code == "so" {
		fmt.Fprintf(b, "defer %s.Done()\n", v)
		return v + ".Bytes"
	}
	return v
}

// lookup finds the object whose handle is in a word.
func (k *kind) lookup(word int) string {
	if k.room != "" {
		return fmt.Sprintf("f.%s.Find(c, c.Word(%d))", camel(k.room), word)
	}
	return fmt.Sprintf("handles.%s(f.Objects, c.Word(%d))", k.goName, word)
}

// dispatchRoom refuses to make an object for which there is no memory. Graphs and their nodes are
// counted where they are named.
func dispatchRoom(b *bytes.Buffer, f function) {
	for _, p := range f.params {
		if p.code == "o" && !p.of.graph {
			fmt.Fprintf(b, "if !f.Objects.Room(object.%s) {\nreturn gpubackend.OutOfMemory\n}\n",
				p.of.goName)
		}
	}
}

func dispatchAnswer(b *bytes.Buffer, f function) {
	word := 0
	for i, p := range f.params {
		switch p.code {
		case "oh":
			fmt.Fprintf(b, "c.Answer(f.Graphs.Name%ss(b%d.Bytes, p%d, %s))\n", p.of.goName, i, i,
				owner(f))
		case "on":
			fmt.Fprintf(b, "c.Answer(f.Graphs.EncodeNode(b%d.Bytes, p%d, %s))\n", i, i, owner(f))
		case "o":
			if p.of.graph {
				fmt.Fprintf(b, "c.Answer(f.Graphs.Name%s(p%d, %s))\n", p.of.goName, i, owner(f))
				continue
			}
			fmt.Fprintf(b, "if result == gpubackend.Success {\n")
			fmt.Fprintf(b, "c.Answer(f.Objects.%s(object.%s, uint64(p%d), %s))\n", p.of.adder(),
				p.of.goName, i, owner(f))
			b.WriteString("} else {\nc.Answer(0)\n}\n")
		case "ou":
			fmt.Fprintf(b, "c.Answer(p%d)\n", i)
		}
	}
	for _, p := range f.params {
		switch p.code {
		case "d":
			remove := "Objects.Remove"
			if p.of.graph {
				remove = "Graphs.Forget" + p.of.goName
			}
			fmt.Fprintf(b, "if result == gpubackend.Success {\nf.%s(c.Word(%d))\n}\n", remove, word)
			word++
		case "u", "h":
			word++
		default:
			if p.buffer() {
				word += 2
			}
		}
	}
}

// adder is how a new handle enters the table: an object that the driver may return twice keeps its
// handle.
func (k *kind) adder() string {
	if k.intern {
		return "Intern"
	}
	return "Add"
}

// owner is the guest handle of the object that a new one lives and dies with, as of= says.
func owner(f function) string {
	switch f.of {
	case ofNothing:
		return "0"
	case ofCurrent:
		return "uint64(c.Context)"
	case ofHome:
		return "f.Home(c.Context)"
	}
	word := 0
	for _, p := range f.params {
		switch {
		case p.code == "h" && p.name == f.of:
			return fmt.Sprintf("c.Word(%d)", word)
		case p.code == "h" || p.word():
			word++
		case p.buffer():
			word += 2
		}
	}
	panic(f.symbol + ": its owner isn't among its parameters")
}
