// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/copies"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// TestQueueIsBounded fills a stream that waits for its caller.
func TestQueueIsBounded(t *testing.T) {
	d := newDevice(t, Options{})
	e := newEvent(t, d)
	open := gate(t, d, 0)
	queued := 0
	for ; queued <= scheduler.MaxPendingHard; queued++ {
		if d.EventRecordWithFlags(e, 0, 0) != gpubackend.Success {
			break
		}
	}
	if queued < scheduler.MaxPending || queued >= scheduler.MaxPendingHard {
		t.Errorf("%d operations queued", queued)
	}
	want(t, d.EventRecordWithFlags(e, 0, 0), gpubackend.OutOfMemory)
	open()
	synchronize(t, d)
	ok(t, d.EventRecordWithFlags(e, 0, 0))
}

func TestCopiesThatWaitAreBounded(t *testing.T) {
	d := newDevice(t, Options{})
	const size = 48 << 20
	a, src := alloc(t, d, size), make([]byte, size)
	open := gate(t, d, 0)
	for range copies.MaxHeld / size {
		ok(t, d.CopyIn(a, src, 0))
	}
	want(t, d.CopyIn(a, src, 0), gpubackend.OutOfMemory)
	open()
	ok(t, d.CopyIn(a, src, 0)) // waits for room
	synchronize(t, d)
	if d.Copies.Held() != 0 {
		t.Errorf("%d bytes are kept", d.Copies.Held())
	}
}
