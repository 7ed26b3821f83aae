// SPDX-License-Identifier: Apache-2.0

package waiting

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// After are steps around commands for which the driver waits until the work of a context is over:
// of says which context that is, or 0. The command waits for it here, since the driver would hold
// up the commands of all other threads, on all GPUs. A command with a body can't wait.
func (s *Waiting) After(of map[gpubackend.Op]func(c *call.Call) uint64) call.Steps {
	steps := call.Steps{}
	for op, context := range of {
		steps[op] = func(c *call.Call, run func(*call.Call) gpubackend.Result) gpubackend.Result {
			return s.after(c, context(c), run)
		}
	}
	return steps
}

// Draining are the commands for which the driver waits until the work of the context that they are
// in is over.
var Draining = [...]gpubackend.Op{
	gpubackend.OpArrayDestroy, gpubackend.OpMipmappedArrayDestroy, gpubackend.OpModuleUnload,
	gpubackend.OpLibraryUnload,
}

// after runs a command when the work of a context is over, even if it has failed.
func (s *Waiting) after(
	c *call.Call, context uint64, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	if context == 0 {
		return run(c)
	}
	x := newWaiter(c, forContext, 0)
	x.context = context
	idle := s.query(&x) != gpubackend.NotReady
	s.Contexts.Set(c.Context, true)
	if idle {
		return run(c)
	}
	kept := c.Keep()
	x.anyway = true
	x.then = func() (uint64, gpubackend.Result) {
		// Leaving the context gives the driver the launches in it that were collected meanwhile.
		s.Contexts.Set(0, true)
		s.Contexts.Set(kept.Context, true) // may be gone by now: the command knows what then
		return 0, run(kept)
	}
	s.calls = append(s.calls, x)
	return call.Pending
}
