// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/sums"
)

// Copies and sums have buffers and streams of their own in each context, and sums have code. They
// are made once for several copies. Loading code and freeing pinned memory wait for all work of the
// process, in the driver: forever, if a kernel never ends, and the whole worker with them. So both
// are done only where there is no work for a moment.

// pumpFor is the pump of the current context.
func (m *Memory) pumpFor(c *contexts.Context) (*pump, gpubackend.Result) {
	if p := m.pumps[c]; p != nil {
		return p, gpubackend.Success
	}
	p, r := newPump(m.calls, &c.Work)
	if r != gpubackend.Success {
		p.close()
		return nil, r
	}
	m.pumps[c] = p
	return p, r
}

// summerFor returns what computes sums in the current context; NotReady: it can't be loaded now.
func (m *Memory) summerFor(c *contexts.Context) (*sums.Summer, gpubackend.Result) {
	if s := m.summers[c]; s != nil {
		return s, gpubackend.Success
	}
	if !m.settles() {
		return nil, gpubackend.NotReady
	}
	s, r := sums.New(m.calls, &c.Work)
	if r != gpubackend.Success {
		s.Close()
		return nil, r
	}
	m.summers[c] = s
	return s, r
}

// EndCopies implements gpubackend.Driver.
func (m *Memory) EndCopies() {
	if len(m.pumps)+len(m.summers) == 0 || !m.settles() {
		return
	}
	for c, p := range m.pumps {
		m.contexts.In(c, func() gpubackend.Result {
			p.close()
			return gpubackend.Success
		})
	}
	for c, s := range m.summers {
		m.contexts.In(c, func() gpubackend.Result {
			s.Close()
			return gpubackend.Success
		})
	}
	clear(m.pumps)
	clear(m.summers)
}

const (
	// settling is how long work may take to end. Programs that always have some have less in their
	// streams than that, and give them no more meanwhile: the worker waits here.
	settling = 300 * time.Millisecond
	// settlingPause is the time between two questions.
	settlingPause = 100 * time.Microsecond
)

// settles waits for a moment until there is no work, and says whether there is none.
func (m *Memory) settles() bool {
	for end := time.Now().Add(settling); m.working(); time.Sleep(settlingPause) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// working says whether any context has work.
func (m *Memory) working() bool {
	for c := range m.contexts.All() {
		if lives(c) && m.contexts.In(c, m.streams.Query) == gpubackend.NotReady {
			return true
		}
	}
	return false
}
