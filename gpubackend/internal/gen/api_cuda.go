// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// callsGo writes the methods of the CUDA driver's binding that only pass their arguments on.
func callsGo(a *api) []byte {
	var b bytes.Buffer
	goHeader(&b, "driver", "github.com/paracuda/paracuda/gpubackend",
		"github.com/paracuda/paracuda/gpubackend/cuda/cmem")
	b.WriteString("\n// The functions that generated methods call, " +
		"found once by cuGetProcAddress.\nconst (\n")
	first := true
	for _, f := range a.remote() {
		if !f.native(a) {
			continue
		}
		if first {
			fmt.Fprintf(&b, "sym%s symbol = iota\n", f.method())
			first = false
		} else {
			fmt.Fprintf(&b, "sym%s\n", f.method())
		}
	}
	b.WriteString("generatedSymbols\n)\n\nvar generatedNames = [generatedSymbols]string{\n")
	for _, f := range a.remote() {
		if f.native(a) {
			fmt.Fprintf(&b, "sym%s: %q,\n", f.method(), f.symbol)
		}
	}
	b.WriteString("}\n")
	for _, room := range a.rooms() {
		roomCalls(&b, a, room)
	}
	return b.Bytes()
}

// roomCalls writes the methods of a room.
func roomCalls(b *bytes.Buffer, a *api, room string) {
	fmt.Fprintf(b, "\n// %sCalls passes the functions of a room on.\n"+
		"type %[1]sCalls struct{ *library }\n", room)
	for _, f := range a.remote() {
		if f.room == room && f.native(a) {
			callFunc(b, f)
		}
	}
}

func callFunc(b *bytes.Buffer, f function) {
	fmt.Fprintf(b, "\n// %s calls %s.\nfunc (d %sCalls) %s {\n", f.method(), f.symbol, f.room,
		signature(f, "gpubackend."))
	var args, reads []string
	out := 0
	for i, p := range f.params {
		name := goName(p.name)
		switch p.code {
		case "u":
			args = append(args, name)
		case "h", "d":
			args = append(args, "uint64("+name+")")
		case "is":
			args = append(args, "d.text("+name+")")
		case "si", "so":
			size := "min(len(" + name + "), " + p.kind + ")"
			fmt.Fprintf(b, "s%d := cmem.Copied(%s[:%s], %s)\ndefer s%d.Free()\n", i, name, size,
				p.kind, i)
			args = append(args, fmt.Sprintf("s%d.Address()", i))
			if p.code == "so" {
				reads = append(reads, fmt.Sprintf("copy(%s[:%s], s%d.Bytes())\n", name, size, i))
			}
		case "o", "ou":
			args = append(args, fmt.Sprintf("d.out(%d)", out))
			typ := ""
			if p.code == "o" {
				typ = "gpubackend." + p.of.goName
			}
			reads = append(reads, fmt.Sprintf("%s = %s(d.value(%d))\n", name, typ, out))
			out++
		}
	}
	fmt.Fprintf(b, "result = d.call(sym%s, %s)\n", f.method(), strings.Join(args, ", "))
	b.WriteString(strings.Join(reads, ""))
	b.WriteString("return\n}\n")
}

// coverageDoc lists every function of the API and what happens to a call of it.
func coverageDoc(a *api) []byte {
	how := map[string]string{
		"call": "executed; the caller waits", "raw": "executed", "post": "executed, delayed",
		"local": "answered in the guest",
	}
	class := map[string]string{}
	done := 0
	for _, f := range a.functions {
		if !f.op {
			class[f.symbol] = f.class
		}
	}
	for _, s := range a.symbols {
		if class[s] != "" {
			done++
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"<!-- %s -->\n# Coverage of the CUDA driver API\n\n"+
			"%d of the %d functions of prototypes.tsv are implemented. "+
			"The others return CUDA_ERROR_NOT_SUPPORTED (801) and are logged once.\n\n"+
			"| function | |\n|---|---|\n", generated, done, len(a.symbols))
	for _, s := range a.symbols {
		text := how[class[s]]
		if text == "" {
			text = "801"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", s, text)
	}
	return b.Bytes()
}
