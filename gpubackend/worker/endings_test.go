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
