// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestToldOnce: a program's errors aren't told, and each error of a GPU is told once.
func TestToldOnce(t *testing.T) {
	var told []handover.Fault
	gpu := 0
	x := New(func() int { return gpu }, func(m *handover.Message) error {
		if m.Kind != handover.KindFault || m.Fault == nil {
			t.Errorf("message %+v", m)
			return nil
		}
		told = append(told, *m.Fault)
		return nil
	})
	for _, r := range []gpubackend.Result{
		gpubackend.Success, gpubackend.IllegalAddress, gpubackend.LaunchFailed,
		gpubackend.ECCUncorrectable, gpubackend.ECCUncorrectable, gpubackend.Unknown,
	} {
		x.Note(r)
	}
	gpu = 1
	x.Note(gpubackend.Unknown)
	want := []handover.Fault{{GPU: 0, Result: cudaabi.ErrorECCUncorrectable},
		{GPU: 0, Result: cudaabi.ErrorUnknown}, {GPU: 1, Result: cudaabi.ErrorUnknown}}
	if len(told) != len(want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Errorf("told %v, want %v", told, want)
		}
	}
}
