// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/loadstore"
)

// TestAllOperationsAreExecuted: there is a function for each operation that is decoded, for each
// function that the driver provides, and for each special register.
func TestAllOperationsAreExecuted(t *testing.T) {
	t.Parallel()
	unknown := reflect.ValueOf(execUnknown).Pointer()
	unknownAccess := reflect.ValueOf(loadstore.Accesses[decoded.OpNone]).Pointer()
	for op := decoded.OpNone + 1; op < decoded.Ops; op++ {
		if (reflect.ValueOf(execs[op]).Pointer() == unknown) ==
			(reflect.ValueOf(loadstore.Accesses[op]).Pointer() == unknownAccess) {
			t.Errorf("nothing executes operation %d, or two things do", op)
		}
	}
	for b := decoded.BuiltinNone + 1; b < decoded.Builtins; b++ {
		if builtinFuncs[b] == nil {
			t.Errorf("nothing executes builtin function %d", b)
		}
	}
	if len(specialsByName) != len(decoded.SpecialNames) {
		t.Errorf("%d special registers, %d names", len(specialsByName), len(decoded.SpecialNames))
	}
	for i, name := range decoded.SpecialNames {
		if v := &specialValues[i]; v.launch == nil && v.block == nil && v.lane == nil {
			t.Errorf("nothing gives %%%s", name)
		}
	}
}
