// SPDX-License-Identifier: Apache-2.0

package pools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// reach is a GPU, and another one whose pools it was given.
type reach struct{ device, of uint64 }

// SavedReach says how many pools of another GPU a GPU was given and has.
type SavedReach struct{ Device, Of, Pools uint64 }

// giveAccess is around the command that gives a GPU a pool of another one, or takes it back. The
// device is told of the first and the last one alone: to it, a pool is all memory of its GPU.
func (s *Pools) giveAccess(
	c *call.Call, a command.PoolAccess, run func(*call.Call) gpubackend.Result,
) gpubackend.Result {
	r, takes := reach{a.Device, a.Of}, a.Access == gpubackend.AccessNone
	switch n := s.access[r]; {
	case takes && n == 0:
		return gpubackend.InvalidValue // it wasn't given
	case takes && n == 1:
		delete(s.access, r)
		return run(c)
	case takes:
		s.access[r]--
	case n > 0:
		s.access[r]++
	default:
		result := run(c)
		if result == gpubackend.Success {
			s.access[r] = 1
		}
		return result
	}
	return gpubackend.Success
}

// savedAccess are all GPUs with pools of others.
func (s *Pools) savedAccess() (list []SavedReach) {
	for r, n := range s.access {
		list = append(list, SavedReach{r.device, r.of, n})
	}
	slices.SortFunc(list, func(a, b SavedReach) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Of, b.Of))
	})
	return list
}

// restoreAccess gives GPUs the pools of others again. The device refuses GPUs that there aren't.
func (s *Pools) restoreAccess(list []SavedReach) error {
	for _, x := range list {
		r := reach{x.Device, x.Of}
		if x.Pools == 0 || s.access[r] != 0 {
			return fmt.Errorf("%w: GPU %d has %d of GPU %d's, or twice", errSaved, x.Device,
				x.Pools, x.Of)
		}
		result := s.Driver.PoolAccess(x.Device, x.Of, gpubackend.AccessReadWrite)
		if result != gpubackend.Success {
			return fmt.Errorf("give GPU %d the pools of GPU %d: %w", x.Device, x.Of, result.Err())
		}
		s.access[r] = x.Pools
	}
	return nil
}
