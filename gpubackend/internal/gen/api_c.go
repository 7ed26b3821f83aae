// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// libcuda is where the guest library's sources are, in a folder for each room.
const libcuda = "guestdriver/libcuda/"

// cOutputs is what the guest library is made from.
func cOutputs(a *api) []output {
	return []output{
		{libcuda + "context/zz_generated_calls.h", callsC(a)},
		{libcuda + "base/zz_generated_prototypes.h", prototypesC(a)},
		{libcuda + "calls/zz_generated_exports.c", exportsC(a)},
		{libcuda + "exports/zz_generated_variants.c", variantsC(a)},
		{libcuda + "exports/zz_generated_stubs.c", stubsC(a)},
		{libcuda + "exports/zz_generated_procs.c", procsC(a)},
		{libcuda + "exports/zz_generated_errors.c", errorsC("gpubackend/api/errors.tsv")},
	}
}

func cFile(doc string, includes ...string) *bytes.Buffer {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "/* SPDX-License-Identifier: Apache-2.0 */\n/* %s */\n/* %s */\n", generated,
		doc)
	for _, i := range includes {
		fmt.Fprintf(b, "#include \"%s\"\n", i)
	}
	b.WriteString("\n")
	return b
}

// cParam is a parameter of a C prototype.
type cParam struct{ typ, name string }

func (p cParam) String() string {
	if strings.HasSuffix(p.typ, "*") {
		return p.typ + p.name
	}
	return p.typ + " " + p.name
}

var lastName = regexp.MustCompile(`^(.*?)\s*(\w+)$`)

func cParams(list string) []cParam {
	if list == "void" {
		return nil
	}
	var out []cParam
	for _, s := range strings.Split(list, ",") {
		m := lastName.FindStringSubmatch(strings.TrimSpace(s))
		out = append(out, cParam{strings.ReplaceAll(m[1], "* *", "**"), m[2]})
	}
	return out
}

func paramList(ps []cParam) string {
	if len(ps) == 0 {
		return "void"
	}
	var s []string
	for _, p := range ps {
		s = append(s, p.String())
	}
	return strings.Join(s, ", ")
}

// callsC writes, for each call and post, the function that sends it.
func callsC(a *api) []byte {
	b := header("CALLS", "Sends each call and post of gpubackend/api/cuda.def.",
		"context/context.h", "transport/buffer.h",
		"transport/zz_generated_layouts.h")
	for _, f := range a.remote() {
		if f.buffers() == 0 {
			requester(b, f)
		}
		sender(b, f)
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// buffers is how many buffers a call takes.
func (f function) buffers() (n int) {
	for _, p := range f.params {
		if p.buffer() {
			n++
		}
	}
	return n
}

// requester writes the function that fills a request without buffers, for code that sends it in
// another way.
func requester(b *bytes.Buffer, f function) {
	params := []string{"struct request *r"}
	for _, p := range f.params {
		if p.word() {
			params = append(params, "uint64_t "+p.name)
		}
	}
	fmt.Fprintf(b, "\nstatic inline void request_%s(%s)\n{\n\trequest_init(r, OP_%s);\n", f.symbol,
		strings.Join(params, ", "), f.symbol)
	if f.exact || f.ends() {
		b.WriteString("\tr->exact = true;\n")
	}
	for _, p := range f.params {
		if p.word() {
			fmt.Fprintf(b, "\trequest_word(r, %s);\n", p.name)
		}
	}
	b.WriteString("}\n")
}

// cCall has the parts of a sender's function.
type cCall struct{ params, values, outs, buffers []string }

func (f function) cCall() (c cCall) {
	for _, p := range f.params {
		switch {
		case p.word():
			c.params = append(c.params, "uint64_t "+p.name)
			c.values = append(c.values, p.name)
		case p.code == "o" || p.code == "ou":
			c.params = append(c.params, "uint64_t *"+p.name)
			c.outs = append(c.outs, p.name)
		case p.code == "is":
			c.params = append(c.params, "const char *"+p.name)
			c.buffers = append(c.buffers,
				fmt.Sprintf("buffer_in(&a[%d], &b[%d], %s, __builtin_strlen(%s))", len(c.buffers),
					len(c.buffers), p.name, p.name))
		case p.in():
			c.params = append(c.params, "const void *"+p.name, "size_t "+p.name+"_bytes")
			c.buffers = append(c.buffers,
				fmt.Sprintf("buffer_in(&a[%d], &b[%d], %s, %s_bytes)", len(c.buffers),
					len(c.buffers), p.name, p.name))
		default:
			c.params = append(c.params, "void *"+p.name, "size_t "+p.name+"_bytes")
			if p.counted() {
				c.params = append(c.params, "uint64_t *"+p.name+"_count")
				c.outs = append(c.outs, p.name+"_count")
			}
			c.buffers = append(c.buffers,
				fmt.Sprintf("buffer_out(&a[%d], &b[%d], %s, %s_bytes)", len(c.buffers),
					len(c.buffers), p.name, p.name))
		}
	}
	return c
}

func sender(b *bytes.Buffer, f function) {
	c := f.cCall()
	fmt.Fprintf(b, "\nstatic inline CUresult %s_%s(%s)\n{\n\tstruct request r;\n", f.class,
		f.symbol, orVoid(c.params))
	if len(c.buffers) > 0 {
		fmt.Fprintf(b,
			"\tstruct buffer b[%d] = { 0 };\n\tstruct argument a[%d];\n\tCUresult result;\n",
			len(c.buffers), len(c.buffers))
	} else if len(c.outs) > 0 {
		b.WriteString("\tCUresult result;\n")
	}
	if len(c.outs) > 0 {
		fmt.Fprintf(b, "\tuint64_t out[%d] = { 0 };\n", len(c.outs))
	}
	b.WriteString("\n" + refusals(f))
	if len(c.buffers) > 0 {
		senderBuffers(b, f, c)
	} else {
		fmt.Fprintf(b, "\trequest_%s(%s);\n", f.symbol,
			strings.Join(append([]string{"&r"}, c.values...), ", "))
	}
	senderEnd(b, f, c)
}

// senderBuffers fills a request that has buffers.
func senderBuffers(b *bytes.Buffer, f function, c cCall) {
	fmt.Fprintf(b, "\trequest_init(&r, OP_%s);\n", f.symbol)
	if f.exact || f.ends() {
		b.WriteString("\tr.exact = true;\n")
	}
	n := 0
	for _, p := range f.params {
		switch {
		case p.word():
			fmt.Fprintf(b, "\trequest_word(&r, %s);\n", p.name)
		case p.buffer():
			failed := "\tif (result)\n\t\tgoto done;\n"
			if n > 0 { // earlier ones may be pinned
				failed = "\tif (result) {\n\t\tchannel_drop(&r);\n\t\tgoto done;\n\t}\n"
			}
			fmt.Fprintf(b, "\tresult = %s;\n%s\trequest_argument(&r, a[%d]);\n", c.buffers[n],
				failed, n)
			n++
		}
	}
}

// senderEnd sends the request and stores what is answered.
func senderEnd(b *bytes.Buffer, f function, c cCall) {
	send := "channel_post(&r)"
	if f.class == "call" && len(c.outs) > 0 {
		send = fmt.Sprintf("channel_call(&r, out, %d)", len(c.outs))
	} else if f.class == "call" {
		send = "channel_call(&r, NULL, 0)"
	}
	if len(c.outs)+len(c.buffers) == 0 {
		fmt.Fprintf(b, "\treturn %s;\n}\n", send)
		return
	}
	fmt.Fprintf(b, "\tresult = %s;\n", send)
	if len(c.buffers) > 0 {
		b.WriteString("done:\n")
		for i := range c.buffers {
			fmt.Fprintf(b, "\tbuffer_done(&b[%d]);\n", i)
		}
	}
	for i, o := range c.outs {
		fmt.Fprintf(b, "\t*%s = out[%d];\n", o, i)
	}
	b.WriteString("\treturn result;\n}\n")
}

// refusals are the checks of scalars that have a set. The worker would refuse them too, but later.
func refusals(f function) string {
	var b strings.Builder
	for _, p := range f.params {
		if p.code == "u" && p.kind != "" {
			fmt.Fprintf(&b, "\tif (!is_%s(%s))\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", p.kind,
				p.name)
		}
	}
	return b.String()
}

func (f function) exported() bool { return !f.op }

// described maps every exported symbol that is implemented to its C parameters.
func (a *api) described() map[string][]cParam {
	m := map[string][]cParam{}
	for _, f := range a.functions {
		if f.exported() {
			m[f.symbol] = cParams(a.prototypes[f.symbol])
		}
	}
	return m
}

func prototypesC(a *api) []byte {
	b := &bytes.Buffer{}
	b.WriteString(strings.Replace(cFile("Prototypes of the exported functions.",
		"base/state.h").String(),
		"#include", "#ifndef PARACUDA_PROTOTYPES_H\n#define PARACUDA_PROTOTYPES_H\n\n#include", 1))
	for _, f := range a.functions {
		if f.exported() {
			fmt.Fprintf(b, "EXPORT CUresult %s(%s);\n", f.symbol,
				paramList(cParams(a.prototypes[f.symbol])))
		}
	}
	b.WriteString("\n#endif\n")
	return b.Bytes()
}

// variants maps each symbol for per-thread default streams to the symbol of which it is a variant.
func (a *api) variants() map[string]string {
	m := map[string]string{}
	for _, v := range a.versions {
		for _, p := range v.perThread {
			m[p.symbol] = strings.TrimSuffix(strings.TrimSuffix(p.symbol, "_ptsz"), "_ptds")
		}
	}
	return m
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// variantsC writes the functions for which NULL means the per-thread stream, and old names of the
// same functions.
func variantsC(a *api) []byte {
	b := cFile("Functions for which the NULL stream is the per-thread one, and old names.",
		"base/state.h", "base/zz_generated_prototypes.h")
	described, variants := a.described(), a.variants()
	for _, symbol := range sortedKeys(variants) {
		params, ok := described[variants[symbol]]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "EXPORT CUresult %s(%s);\nEXPORT CUresult %s(%s)\n{\n", symbol,
			paramList(params), symbol, paramList(params))
		var args []string
		stream := false
		for _, p := range params {
			if p.typ == "CUstream" {
				stream = true
				args = append(args,
					fmt.Sprintf("%s ? %s : (CUstream)CU_STREAM_PER_THREAD", p.name, p.name))
			} else {
				args = append(args, p.name)
			}
		}
		call := fmt.Sprintf("%s(%s)", variants[symbol], strings.Join(args, ", "))
		if stream {
			fmt.Fprintf(b, "\treturn %s;\n}\n\n", call)
		} else {
			fmt.Fprintf(b,
				"\tCUresult result;\n\n\tthread_peek()->stream = CU_STREAM_PER_THREAD;\n"+
					"\tresult = %s;\n\tthread_peek()->stream = 0;\n\treturn result;\n}\n\n", call)
		}
	}
	for _, old := range sortedKeys(a.old) {
		params := described[a.old[old]]
		var args []string
		for _, p := range params {
			args = append(args, p.name)
		}
		fmt.Fprintf(b,
			"EXPORT CUresult %s(%s);\nEXPORT CUresult %s(%s)\n{\n\treturn %s(%s);\n}\n\n", old,
			paramList(params), old, paramList(params), a.old[old], strings.Join(args, ", "))
	}
	return b.Bytes()
}
