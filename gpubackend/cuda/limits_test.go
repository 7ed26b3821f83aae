// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"math"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// TestLimitsCount: heap, stacks and the buffer of printf are device memory as all other.
func TestLimitsCount(t *testing.T) {
	d := newDevice(t, Options{MemoryLimit: 100 << 20})
	primary := d.current
	for _, c := range []struct {
		name         string
		limit, value uint64
		want         gpubackend.Result
		used         uint64 // MiB
	}{
		{"heap", limitHeap, 68 << 20, gpubackend.Success, 60},
		{"heap beyond all", limitHeap, math.MaxUint64, gpubackend.OutOfMemory, 60},
		{"heap beyond the limit", limitHeap, 109 << 20, gpubackend.OutOfMemory, 60},
		{"smaller heap", limitHeap, 48 << 20, gpubackend.Success, 40},
		{"heap that the driver refuses", limitHeap, 13, gpubackend.InvalidValue, 40},
		{"stack", limitStack, 11 << 10, gpubackend.Success, 60}, // 10 KiB more for each of 2048 threads
		{"as much stack as there is", limitStack, math.MaxUint64, gpubackend.OutOfMemory, 60},
		{"printf", limitPrintf, 21 << 20, gpubackend.Success, 80},
		{"printf beyond the limit", limitPrintf, 42 << 20, gpubackend.OutOfMemory, 80},
		{"one that takes nothing", 5, 42 << 20, gpubackend.InvalidValue, 80},
		{"smaller stack", limitStack, 16, gpubackend.Success, 60},
	} {
		want(t, c.name, d.CtxSetLimit(c.limit, c.value), c.want)
		if got := d.used() >> 20; got != c.used {
			t.Fatalf("%s: %d MiB count, want %d", c.name, got, c.used)
		}
	}
	other, r := d.CtxCreate(0, 0)
	must(t, "create", r)
	must(t, "set current", d.SetCurrent(other))
	must(t, "heap of another context", d.CtxSetLimit(limitHeap, 28<<20))
	want(t, "stacks of another context", d.CtxSetLimit(limitStack, 12<<10), gpubackend.OutOfMemory)
	if d.used() != 80<<20 {
		t.Errorf("%d MiB count for two contexts", d.used()>>20)
	}
	must(t, "destroy", d.CtxDestroy(other))
	must(t, "set current", d.SetCurrent(primary))
	must(t, "reset", d.DevicePrimaryCtxReset(0))
	if d.used() != 0 || len(d.limits) != 0 {
		t.Errorf("%d bytes count in the end", d.used())
	}
}

// TestLimitsWithoutABound are the driver's business.
func TestLimitsWithoutABound(t *testing.T) {
	d := newDevice(t, Options{})
	must(t, "heap", d.CtxSetLimit(limitHeap, 1<<40))
	if d.used() != 0 {
		t.Errorf("%d bytes count", d.used())
	}
}
