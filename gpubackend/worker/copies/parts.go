// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// parts are copies that a thread doesn't wait for one by one: JOIN is answered when all before it
// are over.
type parts struct {
	running int
	result  gpubackend.Result // the first error
}

func (p *parts) note(result gpubackend.Result) {
	if p.result == gpubackend.Success {
		p.result = result
	}
}

// Advance is the result of all parts, or NotReady.
func (p *parts) Advance() gpubackend.Result {
	if p.running > 0 {
		return gpubackend.NotReady
	}
	return p.result
}

// Over says that JOIN is answered.
func (p *parts) Over(gpubackend.Result) (answered bool) { return true }

// isPart says whether a copy with such flags is a part.
func isPart(c *call.Call, flags uint64) bool { return !c.Reply() && flags&wire.CopyFlagPart != 0 }

// partsOf returns the parts of the calling thread that no JOIN has followed yet.
func (t *Copies) partsOf(c *call.Call) *parts {
	if t.threads[c.Slot] == nil {
		t.threads[c.Slot] = &parts{}
	}
	return t.threads[c.Slot]
}

// endPart notes the result of a copy that is over at once. If it is a part, JOIN gives the result
// to the guest.
func (t *Copies) endPart(c *call.Call, part bool, result gpubackend.Result) gpubackend.Result {
	if result == call.Pending || !part {
		return result
	}
	t.Maps.GiveUnused(c, result)
	t.Failed(result)
	t.partsOf(c).note(result)
	return call.Pending
}

// join waits for the parts that the thread has sent since its last JOIN.
func (t *Copies) join(c *call.Call, _ command.Join) gpubackend.Result {
	if !c.Reply() {
		return gpubackend.InvalidValue
	}
	p := t.threads[c.Slot]
	if p == nil {
		return gpubackend.Success
	}
	t.threads[c.Slot] = nil
	result := p.Advance()
	if result != gpubackend.NotReady {
		return result
	}
	return t.Await(c, p)
}
