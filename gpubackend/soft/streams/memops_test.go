// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// memOps makes a list of operations. Of each, words has kind, address, value and flags.
func memOps(words ...uint64) []byte {
	const size = cudaabi.StreamBatchMemOpParamsSize
	b := make([]byte, len(words)/4*size)
	for i := 0; i < len(words); i += 4 {
		p := cudaabi.StreamBatchMemOpParams(b[i/4*size:])
		p.SetOperation(uint32(words[i]))
		p.SetWriteValueAddress(words[i+1])
		p.SetWriteValueValue64(words[i+2])
		p.SetWriteValueFlags(uint32(words[i+3]))
	}
	return b
}

const (
	wait32, write32  = cudaabi.MemOpWaitValue32, cudaabi.MemOpWriteValue32
	wait64, write64  = cudaabi.MemOpWaitValue64, cudaabi.MemOpWriteValue64
	geq, eq          = cudaabi.StreamWaitValueGeq, cudaabi.StreamWaitValueEQ
	and, nor         = cudaabi.StreamWaitValueAnd, cudaabi.StreamWaitValueNor
	flush            = cudaabi.StreamWaitValueFlush
	remote, barrier  = cudaabi.MemOpFlushRemoteWrites, cudaabi.MemOpBarrier
	none, unknownOps = 0, 77
)

// TestWordsHold: what ends a wait, for each comparison and size.
func TestWordsHold(t *testing.T) {
	for _, x := range []struct {
		compare, word, value, size uint64
		want                       bool
	}{
		{geq, 5, 5, 4, true},
		{geq, 4, 5, 4, false},
		{geq, 1, 0xffffffff, 4, true}, // values wrap: 1 is 2 more
		{geq, 0xffffffff, 1, 4, false},
		{geq, 1 << 40, 1 << 39, 8, true},
		{geq, 0, 1 << 62, 8, false},
		{geq, 0, 1<<63 + 1, 8, true},
		{eq, 7, 7, 4, true},
		{eq, 7, 8, 8, false},
		{and, 6, 2, 4, true},
		{and, 6, 9, 4, false},
		{nor, 0xffff0000, 0x0000ffff, 4, false},
		{nor, 0xffff0000, 0x00007fff, 4, true},
		{nor, 1<<63 - 1, 0, 8, true},
		{nor, 1<<63 - 1, 1 << 63, 8, false},
	} {
		op := memOp{value: x.value, size: x.size, compare: x.compare}
		if op.holds(x.word) != x.want {
			t.Errorf("%+v", x)
		}
	}
}

// TestMemOpsAreChecked in their order, as by the driver.
func TestMemOpsAreChecked(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 64)
	for _, x := range []struct {
		name  string
		ops   []byte
		flags uint64
		want  gpubackend.Result
	}{
		{"one of each", append(
			memOps(write32, a, 1, 1, wait32, a, 1, geq, write64, a+8, 2, 0),
			memOps(wait64, a+8, 2, eq, barrier, 0, 0, 0)...), 0, gpubackend.Success},
		{"none", nil, 0, gpubackend.Success},
		{"flags of the batch", memOps(write32, a, 1, 0), 1, gpubackend.InvalidValue},
		{"an odd address", memOps(write32, a+2, 1, 0), 0, gpubackend.InvalidValue},
		{"an address for 32 bits", memOps(write64, a+4, 1, 0), 0, gpubackend.InvalidValue},
		{"no address", memOps(wait32, 0, 0, geq), 0, gpubackend.InvalidValue},
		{"beyond the end", memOps(write32, a+64, 1, 0), 0, gpubackend.InvalidValue},
		{"unknown flags of a write", memOps(write32, a, 1, 2), 0, gpubackend.InvalidValue},
		{"unknown flags of a wait", memOps(wait32, a, 0, 8), 0, gpubackend.InvalidValue},
		{"a wait that flushes", memOps(wait32, a, 0, flush, unknownOps, 0, 0, 0), 0,
			gpubackend.NotSupported},
		{"a flush", memOps(remote, 0, 0, 0), 0, gpubackend.NotSupported},
		{"an unknown operation", memOps(unknownOps, a, 0, 0, wait32, a, 0, flush), 0,
			gpubackend.InvalidValue},
		{"no operation", memOps(none, a, 0, 0), 0, gpubackend.InvalidValue},
	} {
		if result := r.StreamMemOps(gpubackend.DefaultStream, x.ops, x.flags); result != x.want {
			t.Errorf("%s: %d, want %d", x.name, result, x.want)
		}
	}
	resulttest.OK(t, r.Idle(t))
}

// TestWaitForAWord: a stream waits until another one writes the word. What comes behind waits, too,
// but calls that wait until memory is unused don't.
func TestWaitForAWord(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 64)
	first, second := r.stream(t, cudaabi.StreamNonBlocking), r.stream(t, cudaabi.StreamNonBlocking)
	ops := memOps(write32, a, 0, 0, wait32, a, 3, eq, write64, a+8, 9, 0)
	resulttest.OK(t, r.StreamMemOps(first, ops, 0))
	r.Scheduler.WaitUsers()
	resulttest.Want(t, r.StreamQuery(first), gpubackend.NotReady)
	resulttest.OK(t, r.StreamMemOps(second, memOps(write32, a, 2, 0), 0))
	resulttest.Want(t, r.StreamQuery(first), gpubackend.NotReady)
	resulttest.OK(t, r.StreamMemOps(second, memOps(write32, a, 3, 0), 0))
	resulttest.OK(t, r.Idle(t))
	if got := space.LoadWord(a+8, 8); got != 9 {
		t.Errorf("%d was written behind the wait", got)
	}
}

// TestEndlessWaitEnds with its context.
func TestEndlessWaitEnds(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 64)
	c, _ := r.Contexts.Current()
	space.StoreWord(a, 4, 0)
	resulttest.OK(t, r.StreamMemOps(gpubackend.DefaultStream, memOps(wait32, a, 1, eq), 0))
	c.Domain.Drain()
	if n := r.Scheduler.Pending(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// TestMemOpsAreCaptured as one node, whose task does them.
func TestMemOpsAreCaptured(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 64)
	s := r.stream(t, cudaabi.StreamNonBlocking)
	resulttest.OK(t, r.StreamBeginCapture(s, cudaabi.CaptureModeRelaxed))
	ops := memOps(write64, a, 4, 0)
	resulttest.OK(t, r.StreamMemOps(s, ops, 0))
	clear(ops) // the guest's from now on
	g, result := r.StreamEndCapture(s)
	resulttest.OK(t, result)
	graph, result := r.graphs.Find(g)
	resulttest.OK(t, result)
	if len(graph.Nodes) != 1 || graph.Nodes[0].What.Type != gpubackend.NodeMemOps {
		t.Fatalf("%d nodes", len(graph.Nodes))
	}
	c, _ := r.Contexts.Current()
	run, result := r.PrepareMemOps(&graph.Nodes[0].What, c)
	resulttest.OK(t, result)
	r.Scheduler.Submit(run(), nil)
	resulttest.OK(t, r.Idle(t))
	if got := space.LoadWord(a, 8); got != 4 {
		t.Errorf("a launch wrote %d", got)
	}
}
