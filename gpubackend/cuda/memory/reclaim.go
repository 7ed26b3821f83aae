// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
)

// freed is memory of a GPU that goes back to the heap when the context that freed it is idle.
type freed struct {
	gpu  int
	addr uint64
}

func (m *Memory) release(gpu int, addr uint64) gpubackend.Result {
	if err := m.heaps[gpu].Free(addr); err != nil {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// reclaim takes back what was freed, if the work that was in flight then is done.
func (m *Memory) reclaim() {
	c := m.contexts.Current()
	if len(m.freed[c]) == 0 || m.contexts.Known() > 1 && !m.contexts.Idle() {
		return
	}
	if m.streams.Query() == gpubackend.Success {
		m.takeBack(c)
	}
}

// Reclaim waits for the current context's work, takes back what was freed in it, and takes from
// graphs what they don't use. It says whether there was anything to take back.
func (m *Memory) Reclaim() bool {
	trimmed := m.graphs.Trim()
	return m.awaitFreed() || trimmed
}

// comesBack says whether memory that was freed in the current context waits for its work.
func (m *Memory) comesBack(c *contexts.Context) bool {
	return len(m.freed[c]) > 0 && !m.streams.Capturing()
}

func (m *Memory) awaitFreed() bool {
	c := m.contexts.Current()
	if !m.comesBack(c) {
		return false
	}
	if r := m.calls.CtxSynchronize(); r != gpubackend.Success {
		m.contexts.Failed(r)
		return false
	}
	m.takeBack(c)
	return true
}

// takeBack returns what was freed while c was busy.
func (m *Memory) takeBack(c *contexts.Context) {
	list := m.freed[c]
	for _, f := range list {
		m.release(f.gpu, f.addr)
	}
	if list != nil {
		m.freed[c] = list[:0]
	}
}

// Settled takes back what was freed while the current context was busy, now that it is idle.
func (m *Memory) Settled() {
	if m.contexts.Known() == 1 || m.contexts.Idle() {
		m.takeBack(m.contexts.Current())
	}
}

// Holds says whether a context has memory that its end gives back.
func (m *Memory) Holds(c *contexts.Context) bool {
	if len(m.freed[c]) > 0 || len(m.variables) > 0 {
		return true
	}
	for _, owner := range m.owners {
		if owner == c {
			return true
		}
	}
	return false
}

// Ended gives back the memory of a context that has ended.
func (m *Memory) Ended(c *contexts.Context) {
	m.takeBack(c)
	delete(m.freed, c)
	delete(m.pumps, c) // what they had ended with it
	delete(m.summers, c)
	for addr, owner := range m.owners {
		if owner == c {
			delete(m.owners, addr)
			m.release(c.GPU, addr)
		}
	}
}

// Inherit makes memory freed in a green context that ends wait for the base context.
func (m *Memory) Inherit(green *contexts.Context) {
	m.freed[green.Base] = append(m.freed[green.Base], m.freed[green]...)
	delete(m.freed, green)
}
