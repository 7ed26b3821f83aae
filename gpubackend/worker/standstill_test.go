// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/copies"
)

// TestStandstillAwaitsTheMover: copies that the mover has are awaited, and no more are begun.
func TestStandstillAwaitsTheMover(t *testing.T) {
	for _, op := range []gpubackend.Op{gpubackend.OpCopyHtoD, gpubackend.OpCopyDtoH} {
		r, m := newPartsRig(t)
		for range copies.StagedChunks + 4 {
			r.sendPart(op, 1<<20)
		}
		r.send(gpubackend.Op(wire.OpJoin), true, 1, nil)
		r.work(t)
		if len(m.started) != copies.StagedChunks {
			t.Fatalf("%s: %d copies are on their way", op.Name(), len(m.started))
		}
		for i := range copies.StagedChunks {
			if r.standstill.StandsStill() {
				t.Fatalf("%s: stands still with %d of %d copies over", op.Name(), i,
					copies.StagedChunks)
			}
			m.end(nil)
		}
		r.standstill.StandsStill() // a step on the device follows the mover's
		if !r.standstill.StandsStill() || len(m.started) != 0 || r.slot().Done != 0 {
			t.Fatalf("%s: %d copies were begun, answered %d", op.Name(), len(m.started),
				r.slot().Done)
		}
		r.work(t)
		if len(m.started) != 4 {
			t.Fatalf("%s: %d copies afterwards", op.Name(), len(m.started))
		}
	}
}

// busyContext is a device on which one context has work.
type busyContext struct {
	*fakeDriver
	busy gpubackend.Context
}

func (b busyContext) ContextQuery() gpubackend.Result {
	if b.context == b.busy {
		return gpubackend.NotReady
	}
	return gpubackend.Success
}

// TestStandstillOfAllContexts: all contexts must be idle, not only the current one.
func TestStandstillOfAllContexts(t *testing.T) {
	r := newRig(t)
	r.objects.Add(object.Context, 7, 0)
	r.use(busyContext{r.driver, 7})
	if r.standstill.StandsStill() {
		t.Fatal("stands still with a busy context")
	}
	r.use(busyContext{r.driver, 8})
	if !r.standstill.StandsStill() {
		t.Fatal("doesn't stand still, with nothing to do")
	}
}
