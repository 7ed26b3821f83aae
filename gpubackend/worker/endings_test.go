// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// gpus is a driver with a context on each of two GPUs. To end a context it would wait until that is
// idle.
type gpus struct {
	*fakeDriver
	t       *testing.T
	current gpubackend.Context
	state   map[gpubackend.Context]gpubackend.Result
	ended   []string
}

func (g *gpus) SetCurrent(c gpubackend.Context) gpubackend.Result {
	g.current = c
	return gpubackend.Success
}
func (g *gpus) ContextQuery() gpubackend.Result { return g.state[g.current] }
func (g *gpus) end(how string, c gpubackend.Context) gpubackend.Result {
	if g.state[c] == gpubackend.NotReady {
		g.t.Errorf("%s: the driver holds up the other GPU's commands", how)
	}
	g.ended = append(g.ended, how)
	return gpubackend.Success
}
func (g *gpus) LaunchAll(ls []gpubackend.Launch) (int, gpubackend.Result) {
	g.ended = append(g.ended, "launched")
	return len(ls), gpubackend.Success
}
func (g *gpus) CtxDestroy(c gpubackend.Context) gpubackend.Result { return g.end("destroyed", c) }
func (g *gpus) DevicePrimaryCtxReset(uint64) gpubackend.Result    { return g.end("reset", 11) }
func (g *gpus) DevicePrimaryCtxRelease(uint64) gpubackend.Result  { return g.end("released", 11) }
func (g *gpus) GreenCtxDestroy(gpubackend.GreenContext) gpubackend.Result {
	return g.end("green", 11)
}
func (g *gpus) MemGetInfo() (free, total uint64, result gpubackend.Result) {
	return 1, 2, gpubackend.Success
}

func (g *gpus) ArrayDestroy(gpubackend.Array) gpubackend.Result { return g.end("array", 11) }
func (g *gpus) MipmappedArrayDestroy(gpubackend.MipmappedArray) gpubackend.Result {
	return g.end("mipmapped", 11)
}
func (g *gpus) ModuleUnload(gpubackend.Module) gpubackend.Result   { return g.end("module", 11) }
func (g *gpus) LibraryUnload(gpubackend.Library) gpubackend.Result { return g.end("library", 11) }

// TestEndsOfObjectsHoldUpNobody: what the driver frees when a context's work is over waits for
// that, and the commands of another GPU's context are executed meanwhile. Where there is no other
// context the driver waits.
func TestEndsOfObjectsHoldUpNobody(t *testing.T) {
	for _, x := range []struct {
		name string
		op   gpubackend.Op
		kind object.Kind
	}{
		{"array", gpubackend.OpArrayDestroy, object.Array},
		{"mipmapped", gpubackend.OpMipmappedArrayDestroy, object.MipmappedArray},
		{"module", gpubackend.OpModuleUnload, object.Module},
		{"library", gpubackend.OpLibraryUnload, object.Library},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t)
			g := &gpus{
				fakeDriver: r.driver, t: t, state: map[gpubackend.Context]gpubackend.Result{},
			}
			r.use(g)
			alone := r.objects.Add(x.kind, 5, r.context)
			if got := r.call(t, x.op, alone); got != gpubackend.Success || len(g.ended) != 1 {
				t.Fatalf("with one context: %v, %q", got, g.ended)
			}
			g.ended, g.state[11] = nil, gpubackend.NotReady
			other, works := r.context, r.objects.Add(object.Context, 11, 0)
			made := r.objects.Add(x.kind, 6, works)
			r.context = works
			seq := r.slot().Done + 1
			if got := r.call(t, x.op, made); got != call.Pending {
				t.Fatalf("answered with %v while the context works", got)
			}
			r.context = other
			r.send(gpubackend.OpMemGetInfo, true, 77, nil)
			if _, err := r.runCommands(); err != nil {
				t.Fatal(err)
			}
			if s := r.slot(); s.Done != 77 || s.Result != 0 || len(g.ended) != 0 {
				t.Errorf("the other GPU's command isn't answered: %+v, %q", s, g.ended)
			}
			g.state[11] = gpubackend.Success
			r.pollWaiters()
			if s := r.slot(); s.Done != seq || s.Result != 0 || !slices.Equal(g.ended,
				[]string{x.name}) {
				t.Errorf("%q, answer %+v", g.ended, s)
			}
		})
	}
}

func (g *gpus) MemAlloc(uint64) (uint64, gpubackend.Result) {
	return 1 << 43, g.end("allocated", g.current)
}
func (g *gpus) MemAllocNow(bytes uint64) (uint64, bool, gpubackend.Result) {
	if g.state[g.current] == gpubackend.NotReady {
		return 0, true, gpubackend.OutOfMemory
	}
	address, result := g.MemAlloc(bytes)
	return address, false, result
}

// TestFreedMemoryHoldsUpNobody: where there is no memory but what was freed, and work may use that,
// an allocation waits for the work, and the commands of another GPU's context are executed
// meanwhile.
func TestFreedMemoryHoldsUpNobody(t *testing.T) {
	for _, x := range []struct {
		op    gpubackend.Op
		words []uint64
	}{
		{gpubackend.OpMemAlloc, []uint64{4096}},
		{gpubackend.OpMemAllocAsync, []uint64{4096, 0, 0}},
	} {
		r := newRig(t)
		g := &gpus{fakeDriver: r.driver, t: t, state: map[gpubackend.Context]gpubackend.Result{
			11: gpubackend.NotReady,
		}}
		r.use(g)
		if x.op == gpubackend.OpMemAllocAsync {
			x.words[1] = r.want(t, 0, gpubackend.OpPoolDefault, 0)
		}
		other, works := r.context, r.objects.Add(object.Context, 11, 0)
		r.context = works
		seq := r.slot().Done + 1
		if got := r.call(t, x.op, x.words...); got != call.Pending {
			t.Fatalf("%v: answered with %v while the context works", x.op, got)
		}
		r.context = other
		r.send(gpubackend.OpMemGetInfo, true, 77, nil)
		if _, err := r.runCommands(); err != nil {
			t.Fatal(err)
		}
		if s := r.slot(); s.Done != 77 || s.Result != 0 || len(g.ended) != 0 {
			t.Errorf("%v: the other GPU's command isn't answered: %+v, %q", x.op, s, g.ended)
		}
		g.state[11] = gpubackend.Success
		r.pollWaiters()
		if s := r.slot(); s.Done != seq || s.Result != 0 || s.Word[0] != 1<<43 ||
			len(g.ended) != 1 {
			t.Errorf("%v: %q, answer %+v", x.op, g.ended, s)
		}
	}
}

// TestEndsOfContextsHoldUpNobody: a context ends when its work is over, however that ends, and the
// commands of another GPU's context are executed meanwhile.
func TestEndsOfContextsHoldUpNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		op   gpubackend.Op
		word func(context, green uint64) uint64
		work gpubackend.Result
	}{
		{"destroyed", gpubackend.OpCtxDestroy, func(c, _ uint64) uint64 { return c }, 0},
		{"destroyed", gpubackend.OpCtxDestroy, func(c, _ uint64) uint64 { return c },
			gpubackend.IllegalAddress},
		{"reset", gpubackend.OpDevicePrimaryCtxReset, func(_, _ uint64) uint64 { return 3 }, 0},
		{"released", gpubackend.OpDevicePrimaryCtxRelease,
			func(_, _ uint64) uint64 { return 3 }, 0},
		{"green", gpubackend.OpGreenCtxDestroy, func(_, g uint64) uint64 { return g }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			g := &gpus{fakeDriver: r.driver, t: t, state: map[gpubackend.Context]gpubackend.Result{
				11: gpubackend.NotReady,
			}}
			r.use(g)
			ends := r.objects.Add(object.Context, 11, 0)
			green := r.objects.Add(object.GreenContext, 1, ends)
			in := ends
			if tt.name == "green" {
				in = r.objects.Add(object.Context, 11, green)
				r.contexts.AddGreen(in, r.context)
			}
			r.contexts.Retained(3, ends)
			context := r.context
			r.context = in
			if got := r.call(t, tt.op, tt.word(ends, green)); got != call.Pending {
				t.Fatalf("answered with %v while the context works", got)
			}
			r.context = context
			var s wire.Slot
			r.send(gpubackend.OpMemGetInfo, true, 77, nil)
			if _, err := r.runCommands(); err != nil {
				t.Fatal(err)
			}
			if s = r.slot(); s.Done != 77 || s.Result != 0 || s.Word[1] != 2 {
				t.Errorf("the other GPU's command isn't answered: %+v", s)
			}
			// A launch there is collected, and must not come after the end.
			r.policy.BatchDelayUs = 60e6
			r.call(t, gpubackend.OpMemGetInfo)
			r.context = in
			r.launch(nil)
			if _, err := r.runCommands(); err != nil {
				t.Fatal(err)
			}
			r.context = context
			if r.pollWaiters(); len(g.ended) != 0 {
				t.Errorf("%q while the context works", g.ended)
			}
			g.state[11] = tt.work
			r.pollWaiters()
			if s = r.slot(); s.Done != 1 || s.Result != 0 || !slices.Equal(g.ended,
				[]string{"launched", tt.name}) {
				t.Errorf("%q, answer %+v", g.ended, s)
			}
			if _, there := r.objects.Lookup(object.Context, ends); tt.op ==
				gpubackend.OpCtxDestroy && there {
				t.Error("the context's handle is still there")
			}
			if got := r.call(t, tt.op, tt.word(ends, green)); got == call.Pending {
				t.Error("once more: no answer")
			}
		})
	}
}
