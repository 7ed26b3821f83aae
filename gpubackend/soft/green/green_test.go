// SPDX-License-Identifier: Apache-2.0

package green

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/handles"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

var (
	ok   = resulttest.OK
	want = resulttest.Want
)

// rig is green contexts of a device that has contexts and streams, but no work.
type rig struct {
	*contexts.Contexts
	*Green
}

func newRig(t *testing.T, sms int) *rig {
	t.Helper()
	table, s := handles.New(), scheduler.New(nil)
	nothing := func(*contexts.Context) {}
	c := contexts.New(contexts.Options{
		Handles: table, Scheduler: s, Output: output.NewBuffer(nil),
		Hooks: contexts.Hooks{Usable: nothing, Ending: nothing, Ended: nothing},
	})
	c.Start(1)
	_, result := c.DevicePrimaryCtxRetain(0)
	ok(t, result)
	return &rig{c, New(Options{
		Handles: table, Contexts: c, Multiprocessors: sms,
		Streams: streams.New(streams.Options{Handles: table, Scheduler: s, Contexts: c}),
	})}
}

func TestSplitResource(t *testing.T) {
	d := newRig(t, 11)
	for _, tt := range []struct {
		least           uint64
		groups          int
		made, each, rem uint32
	}{{0, 20, 11, 1, 0}, {1, 3, 3, 1, 8}, {4, 5, 2, 4, 3}, {4, 1, 1, 4, 7}, {11, 1, 1, 11, 0}} {
		groups := make([]gpubackend.Resource, tt.groups)
		n, rest, result := d.SplitResource(roomtest.Whole(t, d), groups, 0, tt.least)
		ok(t, result)
		left, _, _ := rest.Multiprocessors()
		if uint32(n) != tt.made || left != tt.rem {
			t.Errorf("%+v: %d groups, %d remain", tt, n, left)
		}
		next := uint32(0)
		for i := range groups[:n] {
			if p := partOf(&groups[i]); p != (multiprocessors{next, tt.each}) {
				t.Errorf("%+v: group %d is %+v", tt, i, p)
			}
			next += tt.each
		}
	}
	n, _, result := d.SplitResource(roomtest.Whole(t, d), nil, 0, 2)
	if ok(t, result); n != 5 {
		t.Errorf("%d groups of two", n)
	}
	groups := make([]gpubackend.Resource, 1)
	_, _, result = d.SplitResource(roomtest.Whole(t, d), groups, 0, 12)
	want(t, result, gpubackend.InvalidValue)
	_, _, result = d.SplitResource(roomtest.Whole(t, d), groups, 0, 4)
	ok(t, result)
	_, _, result = d.SplitResource(&groups[0], make([]gpubackend.Resource, 1), 0, 2)
	want(t, result, gpubackend.InvalidResourceConfiguration)
	_, c := roomtest.MakeGreen(t, d, &groups[0])
	again, result := d.DevResource(gpubackend.OfContext, uint64(c), cudaabi.DevResourceTypeSM)
	ok(t, result)
	n, _, result = d.SplitResource(&again, make([]gpubackend.Resource, 4), 0, 2)
	if ok(t, result); n != 2 {
		t.Errorf("%d groups of a green context's", n)
	}
	_, _, result = d.SplitResource(new(gpubackend.Resource), groups, 0, 1)
	want(t, result, gpubackend.InvalidResourceType)
}

// TestDestroyedGreenContextIsGone: it isn't current any more, and can't be used.
func TestDestroyedGreenContextIsGone(t *testing.T) {
	d := newRig(t, 4)
	g, c := roomtest.MakeGreen(t, d, roomtest.Whole(t, d))
	ok(t, d.SetCurrent(c))
	_, result := d.GreenCtxStreamCreate(g, cudaabi.StreamNonBlocking, 0)
	ok(t, result)
	ok(t, d.GreenCtxDestroy(g))
	want(t, d.GreenCtxDestroy(g), gpubackend.InvalidContext)
	want(t, d.SetCurrent(c), gpubackend.InvalidContext)
	if d.CurrentGreen() != nil {
		t.Error("still the current one")
	}
	_, result = d.GreenCtxStreamCreate(g, cudaabi.StreamNonBlocking, 0)
	want(t, result, gpubackend.InvalidContext)
}
