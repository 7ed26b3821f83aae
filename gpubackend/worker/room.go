// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// A VM that takes turns with a GPU's memory may have less for now than its bound allows. A command
// that lacks room stays in the ring, and nothing is executed behind it, until the device process
// says that there is room or that there will be none. So the worker can be drained meanwhile, and
// its own memory moved out.

// room is what the worker waits for.
type room struct {
	waits   bool // a command stays in the ring
	refused bool // it is to fail
}

// retried are the commands that change nothing when there is no memory for them, so that they can
// be executed again.
var retried = map[gpubackend.Op]bool{
	gpubackend.OpMemAlloc: true, gpubackend.OpMemAllocAsync: true, gpubackend.OpMemCreate: true,
}

// awaitsRoom asks for room if that is what a command lacked, and says whether it waits for it.
func (w *Worker) awaitsRoom(op gpubackend.Op) bool {
	lacks := w.accounts.Short()
	if w.room.refused {
		w.room.refused = false
		return false
	}
	if lacks == 0 || !retried[op] {
		return false
	}
	m := &handover.Message{Kind: handover.KindRoom, Bytes: lacks}
	w.room.waits = w.control.Send(m, nil) == nil
	return w.room.waits
}
