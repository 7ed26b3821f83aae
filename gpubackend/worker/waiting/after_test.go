// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// TestAfter: a command runs once, with its own words, when the work is over, and also when that has
// failed or when there is none.
func TestAfter(t *testing.T) {
	const op = gpubackend.OpCtxDestroy
	for _, x := range []struct {
		first, then gpubackend.Result // of the work
		context     uint64
	}{
		{gpubackend.Success, 0, 7},
		{gpubackend.NotReady, gpubackend.Success, 7},
		{gpubackend.NotReady, gpubackend.IllegalAddress, 7},
		{gpubackend.IllegalAddress, 0, 7},
		{gpubackend.NotReady, 0, 0},
	} {
		r, did := newRig(t), []uint64{}
		r.device.ready = x.first
		steps := r.After(map[gpubackend.Op]func(*call.Call) uint64{
			op: func(*call.Call) uint64 { return x.context },
		})
		c := r.call(op, 0, 42)
		result := steps[op](c, func(c *call.Call) gpubackend.Result {
			did = append(did, c.Word(0))
			return gpubackend.NotFound
		})
		if result == call.Pending {
			if len(did) > 0 || x.first != gpubackend.NotReady || x.context == 0 {
				t.Errorf("%+v: waits, and has run %d times", x, len(did))
			}
			r.command.Words[0] = 43 // the next command is read into the same place
			if r.Poll(); len(did) > 0 {
				t.Errorf("%+v: runs before the work is over", x)
			}
			r.device.ready = x.then
			r.Poll()
			result = r.answers[0].result
		}
		if len(did) != 1 || did[0] != 42 || result != gpubackend.NotFound {
			t.Errorf("%+v: has run with %v, %v", x, did, result)
		}
	}
}
