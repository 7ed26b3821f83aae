// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// fake is a driver that rounds values up to multiples of unit, and the memory that is counted.
type fake struct {
	unit, value uint64
	refuse      bool

	limit, used, freed uint64
}

func (f *fake) CtxSetLimit(_, value uint64) gpubackend.Result {
	if f.refuse {
		return gpubackend.InvalidValue
	}
	f.value = (value + f.unit - 1) / f.unit * f.unit
	return gpubackend.Success
}
func (f *fake) CtxGetLimit(uint64) (uint64, gpubackend.Result) {
	return f.value, gpubackend.Success
}
func (f *fake) Limit() uint64                       { return f.limit }
func (f *fake) HasRoomNow(_ int, bytes uint64) bool { return f.used+bytes <= f.limit }
func (f *fake) Recharge(_ int, had, now uint64)     { f.used += now - had }
func (f *fake) Uncharge(_ int, bytes uint64)        { f.used -= bytes }
func (f *fake) Reclaim() bool {
	gave := f.freed > 0
	f.used, f.freed = f.used-f.freed, 0
	return gave
}

// TestWhatTheDriverMadeOfItCounts, and not what was asked for.
func TestWhatTheDriverMadeOfItCounts(t *testing.T) {
	var x *Limits
	all, list := contextstest.New(func(c *contexts.Context) { x.Ended(c) })
	f := &fake{unit: 16 << 20, limit: 100 << 20}
	x = New(f, all, list, f)
	for _, step := range []struct {
		name          string
		prepare       func()
		limit, value  uint64
		want          gpubackend.Result
		used, counted uint64
	}{
		// The driver makes 32 MiB of 17; the heap's first 8 MiB don't count.
		{"first", func() {}, cudaabi.LimitMallocHeapSize, 17 << 20, 0, 24 << 20, 1},
		{"refused by the driver", func() { f.refuse = true }, cudaabi.LimitMallocHeapSize, 33 << 20,
			gpubackend.InvalidValue, 24 << 20, 1},
		{"too much", func() { f.refuse = false }, cudaabi.LimitMallocHeapSize, 120 << 20,
			gpubackend.OutOfMemory, 24 << 20, 1},
		{"room that was freed", func() { f.used, f.freed = 100<<20, 76<<20 },
			cudaabi.LimitMallocHeapSize, 40 << 20, 0, 40 << 20, 1},
		{"as at the start", func() { f.unit = 1 }, cudaabi.LimitMallocHeapSize, 8 << 20, 0, 0, 1},
		// 2 KiB more for each of 2048 threads: 4 MiB.
		{"stacks", func() {}, cudaabi.LimitStackSize, 3 << 10, 0, 4 << 20, 2},
		// A thread's stack is cut to 512 KiB.
		{"more stack than a thread gets", func() { f.limit = 1 << 40 }, cudaabi.LimitStackSize,
			1 << 40, 0, (512 - 1) << 10 << 11, 2},
	} {
		step.prepare()
		if r := x.CtxSetLimit(step.limit, step.value); r != step.want {
			t.Fatalf("%s: result %d, want %d", step.name, r, step.want)
		}
		if f.used != step.used || uint64(x.Counted()) != step.counted {
			t.Fatalf("%s: %d bytes count for %d limits, want %d", step.name, f.used, x.Counted(),
				step.used)
		}
	}
	all.DevicePrimaryCtxReset(0)
	if f.used != 0 || x.Counted() != 0 {
		t.Errorf("%d bytes count in the end", f.used)
	}
}
