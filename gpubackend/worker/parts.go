// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/wire"
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

// part says whether a command is such a copy.
func (c *call) part() bool {
	linear := c.op == gpubackend.OpCopyHtoD || c.op == gpubackend.OpCopyDtoH
	return linear && c.flags&wire.CommandFlagReply == 0 && c.word(5)&wire.CopyFlagPart != 0
}

// partsOf returns the parts of the calling thread that no JOIN has followed yet.
func (w *Worker) partsOf(c *call) *parts {
	if w.parts[c.slot] == nil {
		w.parts[c.slot] = &parts{}
	}
	return w.parts[c.slot]
}

// endPart notes the result of a copy that is over at once, if it is a part: JOIN gives it to the guest.
func (w *Worker) endPart(c *call, result gpubackend.Result) gpubackend.Result {
	if result == pending || !c.part() {
		return result
	}
	w.giveUnused(c, result)
	w.failed(result)
	w.partsOf(c).note(result)
	return pending
}

// runJoin waits for the parts that the thread has sent since its last JOIN.
func runJoin(w *Worker, c *call) gpubackend.Result {
	if c.flags&wire.CommandFlagReply == 0 {
		return gpubackend.InvalidValue
	}
	p := w.parts[c.slot]
	if p == nil {
		return gpubackend.Success
	}
	w.parts[c.slot] = nil
	result := p.over()
	if result != gpubackend.NotReady {
		return result
	}
	w.waiters = append(w.waiters, waiter{kind: waitParts, slot: c.slot, seq: c.seq, reply: true, parts: p})
	return pending
}
