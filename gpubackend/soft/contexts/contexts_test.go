// SPDX-License-Identifier: Apache-2.0

package contexts

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

var (
	ok   = resulttest.OK
	want = resulttest.Want
)

// rig is the contexts of a device without other rooms, and what those would have been told.
type rig struct {
	*Contexts
	handles *handles.Table
	told    []string
	busy    bool
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{handles: handles.New()}
	tell := func(what string) func(*Context) {
		return func(*Context) { r.told = append(r.told, what) }
	}
	r.Contexts = New(Options{
		Handles: r.handles, Scheduler: scheduler.New(nil), Output: output.NewBuffer(nil),
		Memory: 1 << 30,
		Hooks: Hooks{
			Usable: tell("usable"), Ending: tell("ending"), Ended: tell("ended"),
			Busy: func(*Green) bool { return r.busy },
		},
	})
	return r
}

// owned is an object of a context.
type owned struct{ context *Context }

func (o owned) Owner() *Context { return o.context }

func TestNotOpen(t *testing.T) {
	r := newRig(t)
	_, result := r.Current()
	want(t, result, gpubackend.NotInitialized)
	want(t, r.CheckDevice(0), gpubackend.NotInitialized)
	r.Stop()
	if !r.Ended() {
		t.Error("not closed")
	}
}

func TestLifeOfAContext(t *testing.T) {
	r := newRig(t)
	r.Start(1)
	_, result := r.Current()
	want(t, result, gpubackend.InvalidContext)
	h, result := r.CtxCreate(0, 0)
	ok(t, result)
	ok(t, r.SetCurrent(h))
	c, result := r.Current()
	ok(t, result)
	object := r.handles.Add(owned{c})
	kept := r.handles.Add(owned{r.Primary(0)})
	ok(t, r.CtxDestroy(h))
	if want := []string{"usable", "ending", "ended"}; !slices.Equal(r.told, want) {
		t.Errorf("told %v", r.told)
	}
	if _, found := handles.Find[owned](r.handles, object); found {
		t.Error("an object outlives its context")
	}
	if _, found := handles.Find[owned](r.handles, kept); !found {
		t.Error("an object of another context is gone")
	}
	want(t, r.CtxDestroy(h), gpubackend.InvalidContext)
	want(t, r.SetCurrent(h), gpubackend.InvalidContext)
	want(t, c.State(), gpubackend.ContextIsDestroyed)
	_, result = r.Current()
	want(t, result, gpubackend.InvalidContext)
}

func TestPrimaryIsCountedAndReset(t *testing.T) {
	r := newRig(t)
	r.Start(1)
	want(t, r.DevicePrimaryCtxRelease(0), gpubackend.InvalidContext)
	h, result := r.DevicePrimaryCtxRetain(0)
	ok(t, result)
	again, _ := r.DevicePrimaryCtxRetain(0)
	if again != h || len(r.told) != 1 {
		t.Errorf("handles %d and %d, told %v", h, again, r.told)
	}
	ok(t, r.SetCurrent(h))
	ok(t, r.CtxSetLimit(cudaabi.LimitStackSize, 4096))
	r.Primary(0).FixHeap()
	r.Primary(0).Fail(gpubackend.LaunchFailed)
	want(t, r.ContextQuery(), gpubackend.LaunchFailed)
	ok(t, r.DevicePrimaryCtxReset(0))
	ok(t, r.ContextQuery())
	if v, _ := r.CtxGetLimit(cudaabi.LimitStackSize); v != defaultLimits[cudaabi.LimitStackSize] {
		t.Errorf("stack limit %d", v)
	}
	ok(t, r.CtxSetLimit(cudaabi.LimitMallocHeapSize, 1<<20))
	ok(t, r.DevicePrimaryCtxRelease(0))
	ok(t, r.ContextQuery())
	ok(t, r.DevicePrimaryCtxRelease(0))
	want(t, r.ContextQuery(), gpubackend.ContextIsDestroyed)
}

func TestGreenIsPartOfThePrimary(t *testing.T) {
	r := newRig(t)
	r.Start(1)
	_, result := r.DevicePrimaryCtxRetain(0)
	ok(t, result)
	g := &Green{Context: r.Primary(0), First: 2, Count: 3}
	h := r.AddGreen(g)
	c, found, result := r.Find(h)
	ok(t, result)
	if c != r.Primary(0) || found != g {
		t.Errorf("found %v of %v", found, c)
	}
	ok(t, r.SetCurrent(gpubackend.Context(h)))
	r.busy = true
	want(t, r.ContextQuery(), gpubackend.NotReady)
	r.busy = false
	ok(t, r.ContextQuery())
	r.DropGreen(h, g)
	if r.CurrentGreen() != nil {
		t.Error("still the current one")
	}
	_, _, result = r.Find(h)
	want(t, result, gpubackend.InvalidContext)
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	r.Start(1)
	h, result := r.CtxCreate(0, 0)
	ok(t, result)
	ok(t, r.SetCurrent(h))
	for _, c := range []struct {
		limit, value, kept uint64
		result             gpubackend.Result
	}{
		{cudaabi.LimitStackSize, 1, 16, 0}, {cudaabi.LimitStackSize, 1 << 30, maxStack, 0},
		{cudaabi.LimitPrintfFIFOSize, 1, minPrintf, 0},
		{cudaabi.LimitPrintfFIFOSize, 2 << 30, minPrintf, gpubackend.OutOfMemory},
		{cudaabi.LimitMallocHeapSize, 2 << 30, 8 << 20, gpubackend.OutOfMemory},
		{cudaabi.LimitMaxL2FetchGranularity, 1 << 20, maxL2Fetch, 0},
		{cudaabi.LimitPersistingL2CacheSize, 5, 0, 0},
	} {
		want(t, r.CtxSetLimit(c.limit, c.value), c.result)
		if v, _ := r.CtxGetLimit(c.limit); v != c.kept {
			t.Errorf("limit %d set to %d: %d", c.limit, c.value, v)
		}
	}
	want(t, r.CtxSetLimit(cudaabi.LimitDevRuntimeSyncDepth, 1), gpubackend.UnsupportedLimit)
	want(t, r.CtxSetLimit(lastLimit+1, 1), gpubackend.InvalidValue)
	c, _ := r.Current()
	c.FixHeap()
	want(t, r.CtxSetLimit(cudaabi.LimitMallocHeapSize, 1<<20), gpubackend.InvalidValue)
}
