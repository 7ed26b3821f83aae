// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// turns lets the mover and the streams do all that they can, and returns the results of what is
// over.
func (r *rig) turns() (over []gpubackend.Result) {
	for range 300 {
		for len(r.d.queue) > 0 {
			r.d.queue[0]()
			r.d.queue = r.d.queue[1:]
		}
		for len(r.d.moving) > 0 {
			r.mover.end(0, nil)
		}
		over = append(over, r.poll()...)
	}
	return over
}

// TestCopiesThatWaitHoldUpNoOther: a stream may wait for what a copy in another one brings, as
// kernels of two GPUs do that wait for one another.
func TestCopiesThatWaitHoldUpNoOther(t *testing.T) {
	const held = 1 // as the guest names it
	for name, c := range map[string]struct {
		op   gpubackend.Op
		base uint64
		n    int // copies that wait
		each uint64
	}{
		"direct, by many threads":      {gpubackend.OpCopyDtoH, lent, 40, 256},
		"staged, by many threads":      {gpubackend.OpCopyDtoH, plain, 40, 256},
		"staged, a large one":          {gpubackend.OpCopyDtoH, plain, 1, room},
		"to the device, many":          {gpubackend.OpCopyHtoD, plain, 40, 256},
		"to the device, one and large": {gpubackend.OpCopyHtoD, plain, 1, room},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.d.busy, r.d.held = true, 1+held
			for range c.n {
				if got := r.do(c.op, true, c.base, wire.BufferMap<<56, c.each, c.each, held,
					0); got != call.Pending {
					t.Fatal(got)
				}
			}
			r.turns()
			if len(r.works) == 0 {
				t.Fatal("no copy waits")
			}
			for i := range 3 {
				if got := r.do(c.op, true, c.base, wire.BufferMap<<56, room, room, 0,
					0); got != call.Pending {
					t.Fatal(got)
				}
				if over := r.turns(); len(over) != 1 || over[0] != gpubackend.Success {
					t.Fatalf("copy %d in another stream: over %v", i, over)
				}
			}
			r.d.held, r.d.queue = 0, append(r.d.queue, r.d.stuck...)
			for _, result := range r.turns() {
				if result != gpubackend.Success {
					t.Errorf("a copy that waited: %v", result)
				}
			}
			if len(r.works) > 0 || r.maps.uses != 0 || r.Active() {
				t.Errorf("%d copies still wait, %d uses", len(r.works), r.maps.uses)
			}
		})
	}
}

// TestTheMoverGoesWhileACopyWaits for its stream: the copy ends when that gets there.
func TestTheMoverGoesWhileACopyWaits(t *testing.T) {
	for _, base := range []uint64{lent, plain} {
		r := newRig()
		r.d.busy, r.d.held = true, 2
		if got := r.do(gpubackend.OpCopyDtoH, true, base, wire.BufferMap<<56, room, room, 1,
			0); got != call.Pending {
			t.Fatal(got)
		}
		r.turns()
		r.d.mover = errors.New("broken pipe")
		r.poll()
		r.d.held, r.d.queue = 0, r.d.stuck
		if over := r.turns(); len(over) != 1 || over[0] != gpubackend.DeviceUnavailable ||
			r.Active() || r.maps.uses != 0 {
			t.Errorf("at %#x: over %v, active %v, %d uses", base, over, r.Active(), r.maps.uses)
		}
	}
}
