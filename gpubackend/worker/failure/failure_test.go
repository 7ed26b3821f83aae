// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// TestTold: the first error that kills a context is the program's, and no other is.
func TestTold(t *testing.T) {
	var f Failure
	f.Tell(gpubackend.OutOfMemory)
	if f.Told() != gpubackend.Success {
		t.Errorf("it has failed with %v", f.Told())
	}
	f.Tell(gpubackend.Assert)
	f.Tell(gpubackend.IllegalAddress)
	if f.Told() != gpubackend.Assert {
		t.Errorf("it has failed with %v", f.Told())
	}
}

// TestRestore: handlers answer with the error and need no context, but for those that are kept.
func TestRestore(t *testing.T) {
	ran := map[gpubackend.Op]bool{}
	table, handlers := call.Table{}, call.Handlers{}
	gone := []gpubackend.Op{gpubackend.OpMemFree, gpubackend.OpCtxDestroy,
		gpubackend.OpDevicePrimaryCtxReset, gpubackend.OpHostRegister}
	for _, op := range append(gone, kept[:]...) {
		handlers[op] = call.Handler{Run: func(*call.Call) gpubackend.Result {
			ran[op] = true
			return gpubackend.Success
		}}
	}
	table.Add(handlers)
	words := table.Find(gpubackend.OpMemFree).Words
	var f Failure
	f.Restore(gpubackend.LaunchFailed, &table)
	if f.Told() != gpubackend.LaunchFailed || table.Find(gpubackend.OpMemFree).Words != words {
		t.Errorf("it has failed with %v", f.Told())
	}
	for op := range handlers {
		h, want := table.Find(op), gpubackend.Success
		for _, x := range gone {
			if op == x {
				want = gpubackend.LaunchFailed
			}
		}
		if got := h.Run(nil); got != want || ran[op] != (want == gpubackend.Success) || !h.Bare {
			t.Errorf("%s: %v, executed: %t, needs a context: %t", op.Name(), got, ran[op], !h.Bare)
		}
	}
	if table.Find(gpubackend.OpEventCreate) != nil {
		t.Error("there is a handler that wasn't there")
	}
}
