// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
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
