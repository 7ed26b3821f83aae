// SPDX-License-Identifier: Apache-2.0

package endings

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// world notes what an Endings has others do, in order. Device 1 has the primary context 11.
type world struct{ said []string }

func (w *world) say(format string, arguments ...any) {
	w.said = append(w.said, fmt.Sprintf(format, arguments...))
}

func (w *world) Primary(device uint64) (handle uint64, retained bool) {
	return 11 * device, device == 1
}
func (w *world) Retained(device, handle uint64) { w.say("device %d has %d", device, handle) }
func (w *world) LeaveGreen()                    { w.say("leave green") }
func (w *world) Ended(handle uint64)            { w.say("ended %d", handle) }
func (w *world) RemoveChildren(parent uint64)   { w.say("children of %d", parent) }
func (w *world) Settle()                        { w.say("settle") }

type room struct {
	*world
	name string
}

func (r room) Forget(context uint64) { r.say("%s forget %d", r.name, context) }

// run executes a command. Its handler notes that it ran, and returns result.
func run(w *world, op gpubackend.Op, result gpubackend.Result, words ...uint64) gpubackend.Result {
	e := &Endings{Contexts: w, Streams: room{w, "streams"}, Objects: w, Greens: w,
		Rooms: []Room{room{w, "one"}, room{w, "two"}}}
	c := call.New(&call.Buffers{})
	command := &arena.Command{N: len(words)}
	copy(command.Words[:], words)
	c.Start(command)
	return e.Steps()[op](&c, func(c *call.Call) gpubackend.Result {
		w.say("run")
		if op == gpubackend.OpDevicePrimaryCtxRetain {
			c.Answer(22)
		}
		return result
	})
}

// TestEnds: a context's streams go before it, the rest when it has ended. The rest stays if the
// driver refuses.
func TestEnds(t *testing.T) {
	all := func(handle string) []string {
		return []string{"streams forget " + handle, "leave green", "run", "children of " + handle,
			"one forget " + handle, "two forget " + handle, "settle", "ended " + handle}
	}
	for _, tt := range []struct {
		name   string
		op     gpubackend.Op
		result gpubackend.Result
		word   uint64
		want   []string
	}{
		{"destroyed", gpubackend.OpCtxDestroy, 0, 5, all("5")},
		{"primary released", gpubackend.OpDevicePrimaryCtxRelease, 0, 1, all("11")},
		{"primary reset", gpubackend.OpDevicePrimaryCtxReset, 0, 1, all("11")},
		{"refused", gpubackend.OpCtxDestroy, gpubackend.InvalidContext, 5,
			[]string{"streams forget 5", "leave green", "run", "ended 5"}},
		{"retained", gpubackend.OpDevicePrimaryCtxRetain, 0, 2,
			[]string{"run", "device 2 has 22"}},
		{"not retained", gpubackend.OpDevicePrimaryCtxRetain, gpubackend.OutOfMemory, 2,
			[]string{"run"}},
	} {
		w := &world{}
		if got := run(w, tt.op, tt.result, tt.word); got != tt.result ||
			!slices.Equal(w.said, tt.want) {
			t.Errorf("%s: %v, %q, want %q", tt.name, got, w.said, tt.want)
		}
	}
}
