// SPDX-License-Identifier: Apache-2.0

package decoded

import "fmt"

// Builtin is a function that device code calls without defining it.
type Builtin uint8

const (
	BuiltinNone Builtin = iota
	BuiltinPrintf
	BuiltinMalloc
	BuiltinFree
	BuiltinAssert
	BuiltinSetConditional
	Builtins
)

// builtinCalls are their names, and the sizes of their parameters.
var builtinCalls = [Builtins]struct {
	name  string
	sizes []uint64
}{
	BuiltinPrintf:         {"vprintf", []uint64{8, 8}},
	BuiltinMalloc:         {"malloc", []uint64{8}},
	BuiltinFree:           {"free", []uint64{8}},
	BuiltinAssert:         {"__assertfail", []uint64{8, 8, 4, 8, 8}},
	BuiltinSetConditional: {"cudaGraphSetConditional", []uint64{8, 4}},
}

// builtinNamed finds one by its name.
func builtinNamed(name string) Builtin {
	for b := BuiltinNone + 1; b < Builtins; b++ {
		if builtinCalls[b].name == name {
			return b
		}
	}
	return BuiltinNone
}

// checkBuiltin makes sure that a call passes what the function takes.
func checkBuiltin(site *CallSite) error {
	b := &builtinCalls[site.Builtin]
	ok := len(site.Args) == len(b.sizes) && len(site.Results) <= 1
	for i := 0; ok && i < len(b.sizes); i++ {
		ok = site.Args[i].Size == b.sizes[i]
	}
	if !ok {
		return fmt.Errorf("call of %s with parameters of the wrong sizes", b.name)
	}
	return nil
}
