// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// anew is what a worker that is gone had in flight, and the driver makes available again, since the
// device was away and its queues begin anew. It must be what was saved.
type anew struct {
	arena bool // the arena is yet to come
	maps  map[uint32]*maps.Map
}

// newAnew is for a queue with the saved maps.
func newAnew(known map[uint32]*maps.Map) *anew {
	a := &anew{arena: true, maps: map[uint32]*maps.Map{}}
	for id, m := range known {
		if !m.Kept {
			a.maps[id] = m
		}
	}
	return a
}

// takesArena says whether a chain is the arena that is yet to come.
func (a *anew) takesArena() bool { return a != nil && a.arena }

// takesMap says whether a chain is a map that is yet to come.
func (a *anew) takesMap(id uint32) bool { return a != nil && a.maps[id] != nil }

// arenaAgain takes the arena again.
func (q *Queue) arenaAgain(runs []wire.Run) error {
	if !slices.Equal(runs, q.runs) {
		return fmt.Errorf("an arena of %d runs that isn't the one which was there before",
			len(runs))
	}
	q.anew.arena = false
	return nil
}

// mapAgain takes a map again, with its new chain.
func (q *Queue) mapAgain(head uint16, h *wire.ChainHeader, runs []wire.Run) error {
	m := q.anew.maps[h.Id]
	if h.Bytes != m.Bytes || h.Address != m.Address || uint64(h.Offset) != m.Offset ||
		h.Flags != m.Flags || h.Voucher != m.Voucher || !slices.Equal(runs, m.Runs) {
		return fmt.Errorf("map %d isn't the one which was there before", h.Id)
	}
	m.Head = head
	delete(q.anew.maps, h.Id)
	return nil
}

// takeAnew takes what the driver has made available, which must include all that was saved.
func (q *Queue) takeAnew() error {
	q.anew = newAnew(q.maps)
	_, err := q.takeLocked()
	left := *q.anew
	q.anew = nil
	switch {
	case err != nil:
		return err
	case left.arena || len(left.maps) > 0:
		return fmt.Errorf("%w: the guest's driver has not made all available again "+
			"(arena: %t, maps: %d)", saved.ErrRecord, !left.arena, len(left.maps))
	}
	return nil
}
