// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// deep is code with a kernel, go. It calls a function with 400 registers, which calls itself n
// times. If end isn't 0, threads end in the deepest call.
func deep() []byte {
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n" +
		".func dive(.param .b32 n, .param .b32 end);\n" +
		".func dive(.param .b32 n, .param .b32 end) {\n" +
		".reg .pred p; .reg .b32 a, e; .reg .b64 r<400>; .param .b32 x, y;\n" +
		"ld.param.u32 a, [n]; ld.param.u32 e, [end];\n")
	for i := range 400 {
		fmt.Fprintf(&b, "mov.u64 r%d, %d;\n", i, i)
	}
	b.WriteString("setp.eq.u32 p, a, 0; @p bra done;\n" +
		"sub.u32 a, a, 1; st.param.b32 [x], a; st.param.b32 [y], e;\n" +
		"call dive, (x, y);\nret;\ndone: setp.ne.u32 p, e, 0; @p exit;\nret;\n}\n" +
		".visible .entry go(.param .b32 n, .param .b32 end) {\n" +
		".reg .b32 a, e; .param .b32 x, y;\n" +
		"ld.param.u32 a, [n]; ld.param.u32 e, [end]; st.param.b32 [x], a; st.param.b32 [y], e;\n" +
		"call dive, (x, y);\nret;\n}\n")
	return []byte(b.String())
}

// dive launches it within the budget host.
func dive(t *testing.T, host *budget.Budget, blocks int, depth, end uint32) error {
	t.Helper()
	d := newDevice(t, 4<<20)
	d.load(parseText(t, "deep", deep()))
	l := d.launch("go", linear(blocks), linear(1), depth, end)
	l.HostMemory = host
	err := l.Run(context.Background())
	if host.Used() != 0 {
		t.Errorf("%d bytes are counted when the launch is over", host.Used())
	}
	return err
}

// TestRecursionCounts: what calls take counts as host memory. Before, one thread that called itself
// took 3.3 GiB.
func TestRecursionCounts(t *testing.T) {
	const limit = 64 << 20
	host := budget.New(limit)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := dive(t, host, 1, 16000, 0)
	runtime.ReadMemStats(&after)
	var fault *KernelError
	if !errors.As(err, &fault) || fault.Code != cudaabi.ErrorOutOfMemory {
		t.Errorf("16,000 calls deep: %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2*limit {
		t.Errorf("%d bytes were allocated", grown)
	}
	if err := dive(t, host, 1, 300, 0); err != nil {
		t.Errorf("300 calls deep: %v", err)
	}
}

// TestCallsThatNeverReturn: threads that end in a call leave its registers to the next block.
func TestCallsThatNeverReturn(t *testing.T) {
	host := budget.New(64 << 20)
	if err := dive(t, host, 2000, 50, 1); err != nil {
		t.Error(err)
	}
}

// TestFewerBlocksAtATime: a launch has at least one runner, if there is memory for it, and more as
// long as half of the memory is left to other launches. Blocks that must run together have all
// their runners or none.
func TestFewerBlocksAtATime(t *testing.T) {
	d := newDevice(t, 4<<20)
	d.load(parseText(t, "deep", deep()))
	l := d.launch("go", linear(8), linear(1), uint32(0), uint32(0))
	l.Workers = 8
	one := HostBytes(l.Kernel, 1, 0)
	for _, x := range []struct {
		memory      uint64
		cooperative bool
		runners     int
	}{{16 * one, false, 8}, {8 * one, false, 4}, {3 * one, false, 1}, {one, false, 1},
		{one - 1, false, 0}, {8 * one, true, 8}, {8*one - 1, true, 0}} {
		l.HostMemory, l.Cooperative = budget.New(x.memory), x.cooperative
		r, err := l.prepare()
		if err != nil {
			t.Fatal(err)
		}
		runners := r.admit()
		if runners != x.runners || l.HostMemory.Used() != uint64(x.runners)*one {
			t.Errorf("%+v: %d runners, %d bytes are counted", x, runners, l.HostMemory.Used())
		}
	}
	l.HostMemory, l.Cooperative = budget.New(one-1), false
	var fault *KernelError
	if err := l.Run(context.Background()); !errors.As(err, &fault) ||
		fault.Code != cudaabi.ErrorOutOfMemory {
		t.Errorf("with memory for none: %v", err)
	}
}
