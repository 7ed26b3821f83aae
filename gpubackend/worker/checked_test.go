// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// strangers are numbers of which each set lacks some.
var strangers = []uint64{0x20, 0x40, 0x60, 1 << 8, 1 << 31, 1 << 32, 1 << 63, ^uint64(0), 63, 1000}

// TestUnknownNumbersAreRefused sends commands with numbers that the sets of their words lack. No
// device may see them: the fake driver would answer with another error.
func TestUnknownNumbersAreRefused(t *testing.T) {
	r := newRig(t)
	if len(allowed.Parameters) < 30 {
		t.Fatalf("only %d functions have words with sets", len(allowed.Parameters))
	}
	for op, h := range r.functions.Handlers() {
		for word, set := range allowed.Parameters[op.Name()] {
			n := 0
			for _, number := range strangers {
				if set.Has(number) {
					continue
				}
				n++
				words := make([]uint64, h.Words)
				words[word] = number
				if got := r.call(t, op, words...); got != gpubackend.InvalidValue {
					t.Errorf("%s, word %d = %#x: %v", op.Name(), word, number, got)
				}
			}
			if n == 0 {
				t.Errorf("%s, word %d: there is nothing that the set lacks", op.Name(), word)
			}
		}
	}
}

// TestDumpsAreNotPassedOn names the flags that must never get into these sets.
func TestDumpsAreNotPassedOn(t *testing.T) {
	for _, flags := range []uint64{0x20, 0x40, 0x60, 0x21, 0xff} {
		if allowed.ContextFlags.Has(flags) || allowed.GreenFlags.Has(flags) {
			t.Errorf("flags %#x make the driver write dumps", flags)
		}
	}
}

// TestRawCommandsRefuseUnknownNumbers has those whose layout is decoded by hand.
func TestRawCommandsRefuseUnknownNumbers(t *testing.T) {
	r := newRig(t)
	stream := r.objects.Add(object.Stream, 5, r.context)
	launch := make([]uint64, command.LaunchKernelWords+cudaabi.LaunchAttributeSize/8)
	launch[0], launch[1], launch[5] = r.function, stream, 1<<32
	for _, id := range []uint64{13, 15, 17, 40, 1000, 1 << 31} {
		launch[command.LaunchKernelWords] = id
		if got := r.call(t, gpubackend.OpLaunchKernel, launch...); got != gpubackend.InvalidValue {
			t.Errorf("launch with attribute %d: %v", id, got)
		}
	}
	launch[command.LaunchKernelWords] = 2
	if got := r.call(t, gpubackend.OpLaunchKernel, launch...); got != gpubackend.Success {
		t.Errorf("cooperative launch: %v", got)
	}
	desc := r.objects.Add(object.ResourceDesc, 7, 0)
	r.contexts.Retained(0, r.context)
	for _, flags := range []uint64{0x20, 0x40, 0x21, 2, 1 << 31} {
		if got := r.call(t, gpubackend.OpGreenCtxCreate, desc, 0,
			flags); got != gpubackend.InvalidValue {
			t.Errorf("green context with flags %#x: %v", flags, got)
		}
	}
}
