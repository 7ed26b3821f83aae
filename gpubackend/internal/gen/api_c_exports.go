// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// exportsC writes the functions that only make their call.
func exportsC(a *api) []byte {
	b := cFile("The functions that are no more than their call.", "addresses/fill.h",
		"base/zz_generated_prototypes.h", "context/zz_generated_calls.h", "devices/device.h",
		"streams/activity.h", "streams/capture.h", "streams/stream.h")
	for _, f := range a.functions {
		if f.native(a) && !f.custom {
			export(b, f, cParams(a.prototypes[f.symbol]))
		}
	}
	return b.Bytes()
}

// exportBody is what the parameters of a function add to its code.
type exportBody struct {
	checks, args, stores []string
	forget               string
	outs                 int // values that the answer has
}

// add adds a parameter.
func (x *exportBody) add(f function, p param, c cParam) {
	name := c.name
	switch {
	case p.code == "ou", p.code == "o":
		if !f.optional {
			x.checks = append(x.checks,
				fmt.Sprintf("\tif (!%s)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", name))
		}
		x.args = append(x.args, fmt.Sprintf("&out[%d]", x.outs))
		store := fmt.Sprintf("*%s = (%s)out[%d];", name,
			strings.TrimSpace(strings.TrimSuffix(c.typ, "*")), x.outs)
		if p.code == "o" {
			store = strings.Replace(store, ")out", ")(uintptr_t)out", 1)
		}
		if f.optional {
			store = fmt.Sprintf("if (%s)\n\t\t%s", name, store)
		}
		x.stores = append(x.stores, "\t"+store+"\n")
		x.outs++
	case p.code == "u" && c.typ == "CUdevice":
		x.checks = append(x.checks,
			fmt.Sprintf("\tif (!device_valid(%s))\n\t\treturn CUDA_ERROR_INVALID_DEVICE;\n",
				name))
		x.args = append(x.args, "device_host("+name+")")
	case p.code == "u":
		x.args = append(x.args, "(uint64_t)"+name)
	case p.structure():
		x.checks = append(x.checks,
			fmt.Sprintf("\tif (!%s)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", name))
		x.args = append(x.args, name, p.kind)
	case p.of.unlisted:
		x.args = append(x.args, "(uint64_t)(uintptr_t)"+name)
	case p.of.known != "":
		x.args = append(x.args, "(uint64_t)(uintptr_t)"+name)
		x.checks = append(x.checks,
			fmt.Sprintf("\tif (!%s(%s))\n\t\treturn %s;\n", p.of.known, name, p.of.unknown()))
	default:
		x.args = append(x.args, "(uint64_t)(uintptr_t)"+name)
		x.checks = append(x.checks,
			fmt.Sprintf("\tif (!handle_known(HANDLE_%s, %s))\n\t\treturn %s;\n",
				strings.ToUpper(p.kind), name, p.of.unknown()))
		if p.code == "d" {
			x.forget = fmt.Sprintf("\thandle_forget(HANDLE_%s, %s);\n", strings.ToUpper(p.kind),
				name)
		}
	}
}

func export(b *bytes.Buffer, f function, params []cParam) {
	fmt.Fprintf(b, "EXPORT CUresult %s(%s)\n{\n", f.symbol, paramList(params))
	x := &exportBody{}
	for i, p := range f.params {
		x.add(f, p, params[i])
	}
	if x.outs > 0 {
		fmt.Fprintf(b, "\tuint64_t out[%d];\n", x.outs)
	}
	if f.fill != "" {
		b.WriteString("\tstruct request r;\n")
	}
	if x.outs > 0 || f.fill != "" {
		b.WriteString("\tCUresult result;\n\n")
	}
	if f.noctx {
		b.WriteString("\tENTER();\n")
	} else {
		b.WriteString("\tENTER_CONTEXT();\n")
	}
	b.WriteString(strings.Join(x.checks, "") + f.fillCheck() + x.forget)
	call := fmt.Sprintf("%s_%s(%s)", f.class, f.symbol, strings.Join(x.args, ", "))
	if x.outs == 0 {
		if f.ends() && !f.exact {
			call = "channel_synced(" + call + ")"
		}
		if f.fill != "" {
			fmt.Fprintf(b, "\trequest_%s(&r, %s);\n", f.symbol, strings.Join(x.args, ", "))
			call = f.fillWatched()
		}
		fmt.Fprintf(b, "\treturn %s;\n}\n\n", call)
		return
	}
	fmt.Fprintf(b,
		"\tresult = %s;\n\tif (result)\n\t\treturn result;\n%s\treturn CUDA_SUCCESS;\n}\n\n", call,
		strings.Join(x.stores, ""))
}

// unknown is what functions return for a handle that isn't one.
func (k *kind) unknown() string {
	if k.value {
		return "CUDA_ERROR_INVALID_VALUE"
	}
	return "CUDA_ERROR_INVALID_HANDLE"
}
