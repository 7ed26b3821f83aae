// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestLimitsCount: heap, stacks and the buffer of printf are device memory like any other.
func TestLimitsCount(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 100 << 20})
	primary := d.CurrentHandle()
	for _, c := range []struct {
		name         string
		limit, value uint64
		want         gpubackend.Result
		used         uint64 // MiB
	}{
		// The first 8 MiB of a heap don't count, nor does the first MiB of printf's buffer.
		{"heap", cudaabi.LimitMallocHeapSize, 68 << 20, gpubackend.Success, 60},
		{"heap beyond all", cudaabi.LimitMallocHeapSize, math.MaxUint64, gpubackend.OutOfMemory,
			60},
		{"heap beyond the limit", cudaabi.LimitMallocHeapSize, 109 << 20, gpubackend.OutOfMemory,
			60},
		{"smaller heap", cudaabi.LimitMallocHeapSize, 48 << 20, gpubackend.Success, 40},
		{"heap that the driver refuses", cudaabi.LimitMallocHeapSize, 13, gpubackend.InvalidValue,
			40},
		// 10 KiB more for each of 2048 threads: 20 MiB.
		{"stack", cudaabi.LimitStackSize, 11 << 10, gpubackend.Success, 60},
		{"as much stack as there is", cudaabi.LimitStackSize, math.MaxUint64,
			gpubackend.OutOfMemory, 60},
		{"printf", cudaabi.LimitPrintfFIFOSize, 21 << 20, gpubackend.Success, 80},
		{"printf beyond the limit", cudaabi.LimitPrintfFIFOSize, 42 << 20, gpubackend.OutOfMemory,
			80},
		{"one that takes nothing", 5, 42 << 20, gpubackend.InvalidValue, 80},
		{"smaller stack", cudaabi.LimitStackSize, 16, gpubackend.Success, 60},
	} {
		want(t, c.name, d.CtxSetLimit(c.limit, c.value), c.want)
		if got := d.Used(0) >> 20; got != c.used {
			t.Fatalf("%s: %d MiB count, want %d", c.name, got, c.used)
		}
	}
	other, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(other))
	must(t, "heap of another context", d.CtxSetLimit(cudaabi.LimitMallocHeapSize, 28<<20))
	want(t, "stacks of another context", d.CtxSetLimit(cudaabi.LimitStackSize, 12<<10),
		gpubackend.OutOfMemory)
	if d.Used(0) != 80<<20 {
		t.Errorf("%d MiB count for two contexts", d.Used(0)>>20)
	}
	must(t, "destroy", d.CtxDestroy(other))
	must(t, "set current", d.SetCurrent(primary))
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	if d.Used(0) != 0 || d.Counted() != 0 {
		t.Errorf("%d bytes count in the end", d.Used(0))
	}
}

// TestLimitsWithoutABound are the driver's business.
func TestLimitsWithoutABound(t *testing.T) {
	d := newDevice(t, Options{})
	must(t, "heap", d.CtxSetLimit(cudaabi.LimitMallocHeapSize, 1<<40))
	if d.Used(0) != 0 {
		t.Errorf("%d bytes count", d.Used(0))
	}
}
