// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// parts are copies of one thread that it doesn't wait for one by one: JOIN is answered when all before it are over.
type parts struct {
	running int
	result  gpubackend.Result // the first error
}

func (p *parts) note(result gpubackend.Result) {
	if p.result == gpubackend.Success {
		p.result = result
	}
}

// over is the result of all, or NotReady.
func (p *parts) over() gpubackend.Result {
	if p.running > 0 {
		return gpubackend.NotReady
	}
	return p.result
}

// isPart says whether a copy with such flags is one of them.
func isPart(c *call.Call, flags uint64) bool { return !c.Reply() && flags&wire.CopyFlagPart != 0 }

// partsOf returns the parts of the calling thread that no JOIN has followed yet.
func (w *Worker) partsOf(c *call.Call) *parts {
	if w.parts[c.Slot] == nil {
		w.parts[c.Slot] = &parts{}
	}
	return w.parts[c.Slot]
}

// endPart notes the result of a copy that is over at once, if it is a part: JOIN gives it to the guest.
func (w *Worker) endPart(c *call.Call, part bool, result gpubackend.Result) gpubackend.Result {
	if result == call.Pending || !part {
		return result
	}
	w.maps.GiveUnused(c, result)
	w.failed(result)
	w.partsOf(c).note(result)
	return call.Pending
}

// runJoin waits for the parts that the thread has sent since its last JOIN.
func (w *Worker) runJoin(c *call.Call, _ command.Join) gpubackend.Result {
	if !c.Reply() {
		return gpubackend.InvalidValue
	}
	p := w.parts[c.Slot]
	if p == nil {
		return gpubackend.Success
	}
	w.parts[c.Slot] = nil
	result := p.over()
	if result != gpubackend.NotReady {
		return result
	}
	w.waiters = append(w.waiters, waiter{kind: waitParts, slot: c.Slot, seq: c.Seq, reply: true, parts: p})
	return call.Pending
}
