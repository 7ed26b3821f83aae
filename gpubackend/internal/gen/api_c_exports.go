// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
)

// exportsC writes the functions that are no more than their call.
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

func export(b *bytes.Buffer, f function, params []cParam) {
	fmt.Fprintf(b, "EXPORT CUresult %s(%s)\n{\n", f.symbol, paramList(params))
	var checks, args, stores []string
	var forget string
	outs := 0
	for i, p := range f.params {
		name := params[i].name
		switch {
		case p.code == "ou", p.code == "o":
			if !f.optional {
				checks = append(checks,
					fmt.Sprintf("\tif (!%s)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", name))
			}
			args = append(args, fmt.Sprintf("&out[%d]", outs))
			store := fmt.Sprintf("*%s = (%s)out[%d];", name,
				strings.TrimSpace(strings.TrimSuffix(params[i].typ, "*")), outs)
			if p.code == "o" {
				store = strings.Replace(store, ")out", ")(uintptr_t)out", 1)
			}
			if f.optional {
				store = fmt.Sprintf("if (%s)\n\t\t%s", name, store)
			}
			stores = append(stores, "\t"+store+"\n")
			outs++
		case p.code == "u" && params[i].typ == "CUdevice":
			checks = append(checks,
				fmt.Sprintf("\tif (!device_valid(%s))\n\t\treturn CUDA_ERROR_INVALID_DEVICE;\n",
					name))
			args = append(args, "device_host("+name+")")
		case p.code == "u":
			args = append(args, "(uint64_t)"+name)
		case p.structure():
			checks = append(checks,
				fmt.Sprintf("\tif (!%s)\n\t\treturn CUDA_ERROR_INVALID_VALUE;\n", name))
			args = append(args, name, p.kind)
		case p.of.unlisted:
			args = append(args, "(uint64_t)(uintptr_t)"+name)
		case p.of.known != "":
			args = append(args, "(uint64_t)(uintptr_t)"+name)
			checks = append(checks,
				fmt.Sprintf("\tif (!%s(%s))\n\t\treturn %s;\n", p.of.known, name, p.of.unknown()))
		default:
			args = append(args, "(uint64_t)(uintptr_t)"+name)
			checks = append(checks,
				fmt.Sprintf("\tif (!handle_known(HANDLE_%s, %s))\n\t\treturn %s;\n",
					strings.ToUpper(p.kind), name, p.of.unknown()))
			if p.code == "d" {
				forget = fmt.Sprintf("\thandle_forget(HANDLE_%s, %s);\n", strings.ToUpper(p.kind),
					name)
			}
		}
	}
	if outs > 0 {
		fmt.Fprintf(b, "\tuint64_t out[%d];\n", outs)
	}
	if f.fill != "" {
		b.WriteString("\tstruct request r;\n")
	}
	if outs > 0 || f.fill != "" {
		b.WriteString("\tCUresult result;\n\n")
	}
	if f.noctx {
		b.WriteString("\tENTER();\n")
	} else {
		b.WriteString("\tENTER_CONTEXT();\n")
	}
	b.WriteString(strings.Join(checks, "") + f.fillCheck() + forget)
	call := fmt.Sprintf("%s_%s(%s)", f.class, f.symbol, strings.Join(args, ", "))
	if outs == 0 {
		if f.ends() && !f.exact {
			call = "channel_synced(" + call + ")"
		}
		if f.fill != "" {
			fmt.Fprintf(b, "\trequest_%s(&r, %s);\n", f.symbol, strings.Join(args, ", "))
			call = f.fillWatched()
		}
		fmt.Fprintf(b, "\treturn %s;\n}\n\n", call)
		return
	}
	fmt.Fprintf(b,
		"\tresult = %s;\n\tif (result)\n\t\treturn result;\n%s\treturn CUDA_SUCCESS;\n}\n\n", call,
		strings.Join(stores, ""))
}

// unknown is what functions return for a handle that isn't one.
func (k *kind) unknown() string {
	if k.value {
		return "CUDA_ERROR_INVALID_VALUE"
	}
	return "CUDA_ERROR_INVALID_HANDLE"
}
