// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// TestWaitForWhatIsGone: a thread waits for a stream, or for an event in it, when another ends it.
// The work goes on, and the driver isn't asked for what it doesn't know any more.
func TestWaitForWhatIsGone(t *testing.T) {
	for _, test := range []struct {
		wait, end gpubackend.Op
	}{
		{gpubackend.OpStreamSynchronize, gpubackend.OpStreamDestroy},
		{gpubackend.OpEventSynchronize, gpubackend.OpEventDestroy},
	} {
		t.Run(test.end.Name(), func(t *testing.T) {
			r := onSoft(t)
			defer r.hostFuncs.Close()
			s := r.want(t, 0, gpubackend.OpStreamCreateWithPriority, 1, 0)
			e := r.want(t, 0, gpubackend.OpEventCreate, 0)
			r.want(t, 0, gpubackend.OpHostFunc, s, 7)
			r.want(t, 0, gpubackend.OpEventRecordWithFlags, e, s, 0)
			handle := map[gpubackend.Op]uint64{gpubackend.OpStreamDestroy: s,
				gpubackend.OpEventDestroy: e}[test.end]
			r.want(t, call.Pending, test.wait, handle)
			r.want(t, 0, test.end, handle)
			for range 100 {
				r.pollWaiters()
			}
			if r.waiting.Len() != 1 {
				t.Fatalf("the call was answered %d while the stream was held", r.slot().Result)
			}
			r.guestThread(1, func(uint64) {})
			for r.waiting.Len() > 0 {
				r.pollWaiters()
			}
			if result := r.slot().Result; result != 0 {
				t.Errorf("answered %d", result)
			}
		})
	}
}

// TestFetchIsAnnounced: a small copy from the device is answered by the device where that can, else
// when its fence is passed.
func TestFetchIsAnnounced(t *testing.T) {
	for _, announces := range []bool{true, false} {
		r := newRig(t)
		r.driver.ready, r.driver.announces = gpubackend.NotReady, announces
		if got := r.call(t, gpubackend.OpCopyDtoH, 0, wire.BufferBulk<<56|wire.Bulk, 64, 64, 0,
			wire.CopyFlagBlocking); got != call.Pending {
			t.Fatalf("answered %d before it was there", got)
		}
		if got := len(r.driver.announced) == 1; got != announces {
			t.Fatalf("announced %v", r.driver.announced)
		}
		for range 3 * turns {
			if r.pollWaiters() {
				t.Fatal("answered before it was there")
			}
		}
		if announces {
			*word(r.mem[wire.Slots:]) = r.driver.announced[0] // the device writes
		} else {
			r.driver.ready = gpubackend.Success
		}
		if !r.pollWaiters() || r.waiting.Len() != 0 || r.slot().Done != 1 || r.slot().Result != 0 {
			t.Fatalf("then: %+v", r.slot())
		}
	}
}
