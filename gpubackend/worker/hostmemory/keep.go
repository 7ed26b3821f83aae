// SPDX-License-Identifier: Apache-2.0

package hostmemory

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// keepWhenIdle makes the driver forget a whole, except for pages that other registrations of the
// guest have, too. Nothing may find these missing meanwhile, so it is done when the context is
// idle.
func (s *HostMemory) keepWhenIdle(c *call.Call, a command.HostKeep) gpubackend.Result {
	id := uint32(a.Map)
	var kept []addresses.Range
	for _, r := range []addresses.Range{addresses.Of(a.First, a.FirstBytes),
		addresses.Of(a.Second, a.SecondBytes)} {
		if r.Bytes != 0 {
			kept = append(kept, r)
		}
	}
	return s.WhenIdle(c, func() (uint64, gpubackend.Result) { return 0, s.keep(id, kept) })
}

func (s *HostMemory) keep(id uint32, kept []addresses.Range) gpubackend.Result {
	h := s.ranges[id]
	if h == nil {
		return gpubackend.HostMemoryNotRegistered
	}
	for i, r := range kept {
		if (r.Base|r.Bytes)%pageSize != 0 || !r.In(h.whole.known) ||
			i > 0 && r.Base < kept[0].End() {
			return gpubackend.InvalidValue
		}
	}
	if result := s.forget(h.whole); result != gpubackend.Success {
		return result
	}
	for _, x := range s.ranges {
		if x.whole == h.whole {
			x.keep(kept)
		}
	}
	for _, r := range kept {
		if result := s.register(h.whole, r); result != gpubackend.Success {
			return result
		}
	}
	return gpubackend.Success
}

// keep unmaps all of a range except for sorted parts.
func (h *pinned) keep(parts []addresses.Range) {
	var left []addresses.Range
	for _, m := range h.mapped {
		at := m.Base
		for _, p := range parts {
			from, to := max(p.Base, at), min(p.End(), m.End())
			if from >= to {
				continue
			}
			arena.Unmap(uintptr(at), uintptr(from-at))
			left = append(left, addresses.Of(from, to-from))
			at = to
		}
		arena.Unmap(uintptr(at), uintptr(m.End()-at))
	}
	h.mapped = left
}
