// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// Used says whether anything uses maps otherwise than rightly.
func (q *chains) Used(rightly func(*maps.Map) int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.maps {
		if m.Users() > rightly(m) || m.Leaving() {
			return true
		}
	}
	return false
}

// Saved is what came through the queue. All that the guest has back of the ring is consumed.
func (q *chains) Saved() *saved.Queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &saved.Queue{
		Base: q.queue.Base(), InFlight: q.queue.AppendInFlight(nil), Arena: q.runs,
		Position: q.arena.Position(), Due: q.due, KeptMaps: q.kept.maps, Gone: q.kept.gone,
	}
	for _, e := range q.events {
		s.Events = append(s.Events, saved.Event{Head: e.head, Record: e.record})
	}
	for _, m := range q.maps {
		s.Maps = append(s.Maps, saved.Map{ID: m.ID, Head: m.Head, Bytes: m.Bytes,
			Address: m.Address, Offset: m.Offset, Flags: m.Flags, Runs: m.Runs, Kept: m.Kept})
	}
	return s
}

// Restore takes over what came through the queue, at which this worker begins.
func (q *chains) Restore(s *saved.Queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.queue.AppendInFlight(nil)
	slices.Sort(has)
	slices.Sort(s.InFlight)
	if s.Base != q.queue.Base() || !slices.Equal(s.InFlight, has) {
		return fmt.Errorf("%w: the queue is elsewhere", saved.ErrRecord)
	}
	for _, head := range has {
		q.state.Take(head, s.Base)
	}
	if err := q.check(s.Arena); err != nil {
		return err
	}
	a, err := q.mapArena(s.Arena)
	if err != nil {
		return err
	}
	a.GoOn(s.Position)
	q.use(a)
	for _, e := range s.Events {
		q.events = append(q.events, event{e.Head, e.Record})
	}
	for i := range s.Maps {
		if err := q.restoreMap(&s.Maps[i]); err != nil {
			return err
		}
	}
	if len(s.Gone) > wire.KeptMaps || s.KeptMaps > wire.KeptMaps || s.KeptMaps < q.kept.maps {
		return fmt.Errorf("%w: it has %d maps, of which %d are gone", saved.ErrRecord, s.KeptMaps,
			len(s.Gone))
	}
	q.due, q.kept.maps, q.kept.gone = s.Due, s.KeptMaps, s.Gone
	return nil
}

// restoreMap makes a map known that was known.
func (q *chains) restoreMap(s *saved.Map) error {
	if q.maps[s.ID] != nil {
		return fmt.Errorf("%w: map %d is there twice", saved.ErrRecord, s.ID)
	}
	m := &maps.Map{ID: s.ID, Head: s.Head, Bytes: s.Bytes, Address: s.Address, Offset: s.Offset,
		Flags: s.Flags, Runs: s.Runs}
	if err := q.check(m.Runs); err != nil && len(m.Runs) > 0 {
		return err
	}
	total := uint64(0)
	for _, r := range m.Runs {
		total += r.Bytes
	}
	if len(m.Runs) > 0 && (m.Offset > total || m.Bytes > total-m.Offset) {
		return fmt.Errorf("%w: map %d has %d bytes in %d", saved.ErrRecord, m.ID, m.Bytes, total)
	}
	if s.Kept {
		q.kept.take(m)
	}
	q.know(m)
	return nil
}

// check says what is wrong with runs of guest memory.
func (q *chains) check(runs []wire.Run) error {
	if len(runs) == 0 || len(runs) > wire.RunsPerMap {
		return fmt.Errorf("%w: %d runs of guest memory", saved.ErrRecord, len(runs))
	}
	for _, r := range runs {
		if err := q.mem.Check(r.Address, r.Bytes); err != nil || r.Bytes == 0 {
			return errors.Join(fmt.Errorf("%w: %d bytes of guest memory at %#x", saved.ErrRecord,
				r.Bytes, r.Address), err)
		}
	}
	return nil
}
