// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Used says whether a map has more uses than rightly returns for it.
func (q *Queue) Used(rightly func(*maps.Map) int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.maps {
		if m.Users() > rightly(m) || m.Leaving() {
			return true
		}
	}
	return false
}

// Saved is what came through the queue, except what has gone back to the guest.
func (q *Queue) Saved() *saved.Queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.owed != nil { // nothing has come since
		return q.owed
	}
	s := &saved.Queue{
		Base: q.ring.Base(), InFlight: q.ring.AppendInFlight(nil), Arena: q.runs,
		Position: q.arena.Position(), Due: q.due, KeptMaps: q.kept.maps, Gone: q.kept.gone,
	}
	for _, e := range q.events {
		s.Events = append(s.Events, saved.EventChain{Head: e.head, Record: e.record})
	}
	for _, m := range q.maps {
		s.Maps = append(s.Maps, saved.Map{ID: m.ID, Head: m.Head, Bytes: m.Bytes,
			Address: m.Address, Offset: m.Offset, Flags: m.Flags, Runs: m.Runs,
			Voucher: m.Voucher, Kept: m.Kept})
	}
	return s
}

// Restore takes over what came through the queue, from where this worker goes on. If it has neither
// queue nor guest memory yet, it has stand-ins until it gets them.
func (q *Queue) Restore(s *saved.Queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mem == nil {
		if err := q.standIn(s); err != nil {
			return err
		}
	}
	if err := q.restoreMaps(s.Maps); err != nil {
		return err
	}
	if len(s.Gone) > wire.KeptMaps || s.KeptMaps > wire.KeptMaps || s.KeptMaps < q.kept.maps {
		return fmt.Errorf("%w: it has %d maps, of which %d are gone", saved.ErrRecord, s.KeptMaps,
			len(s.Gone))
	}
	q.due, q.kept.maps, q.kept.gone = s.Due, s.KeptMaps, s.Gone
	if !q.where.Anew {
		if err := q.restoreRing(s); err != nil {
			return err
		}
	}
	if q.owed = s; q.ring == nil {
		return nil
	}
	return q.begin()
}

// restoreRing takes over what is in flight.
func (q *Queue) restoreRing(s *saved.Queue) error {
	for _, e := range s.Events {
		q.events = append(q.events, eventChain{e.Head, e.Record})
	}
	for _, head := range s.InFlight {
		if head >= virtqueue.MaxSize {
			return fmt.Errorf("%w: head %d is in flight", saved.ErrRecord, head)
		}
		q.config.State.Take(head, s.Base)
	}
	q.config.State.SetBase(s.Base)
	return nil
}

// begin goes on with the queue, and with the arena in the guest's memory, as they were saved.
func (q *Queue) begin() error {
	s := q.owed
	has := q.ring.AppendInFlight(nil)
	slices.Sort(has)
	slices.Sort(s.InFlight)
	if !q.where.Anew && (s.Base != q.ring.Base() || !slices.Equal(s.InFlight, has)) {
		return fmt.Errorf("%w: the queue is elsewhere", saved.ErrRecord)
	}
	for _, m := range q.maps { // the stand-in memory didn't know of them
		if err := q.check(m.Runs); err != nil && len(m.Runs) > 0 {
			return err
		}
	}
	if err := q.check(s.Arena); err != nil {
		return err
	}
	a, err := q.mapArena(s.Arena)
	if err != nil {
		return err
	}
	a.GoOn(s.Position)
	q.Use(a)
	if q.owed = nil; q.where.Anew {
		return q.takeAnew()
	}
	return nil
}

// standIn makes memory that stands in for the guest's: it is as large, and nobody reads it. An
// empty arena stands in for the guest's.
func (q *Queue) standIn(s *saved.Queue) error {
	end := uint64(pageSize)
	for _, m := range s.Maps {
		for _, r := range m.Runs {
			if r.Bytes > maxStandIn || r.Address > maxStandIn-r.Bytes {
				return fmt.Errorf("%w: %d bytes of guest memory at %#x", saved.ErrRecord, r.Bytes,
					r.Address)
			}
			end = max(end, r.Address+r.Bytes)
		}
	}
	r := guestmem.Region{Size: (end + pageSize - 1) &^ (pageSize - 1)}
	fd, err := memfd.Make(memfd.Form{Kind: memfd.StandIn, Bytes: r.Size})
	if err != nil {
		return fmt.Errorf("stand in for %d bytes of guest memory: %w", r.Size, err)
	}
	defer unix.Close(fd)
	r.FD = fd
	if q.mem, err = guestmem.NewSparse([]guestmem.Region{r}); err != nil {
		return err
	}
	none, err := arena.New(make([]byte, arena.MinBytes))
	if err != nil {
		return err
	}
	q.Use(none)
	return nil
}

// maxStandIn bounds a guest's memory: no host has more.
const maxStandIn = 1 << 45

// RestoreMaps makes saved maps known again, as Restore does, for a worker that keeps its arena.
func (q *Queue) RestoreMaps(list []saved.Map) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.restoreMaps(list)
}

func (q *Queue) restoreMaps(list []saved.Map) error {
	for i := range list {
		if err := q.restoreMap(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

// restoreMap makes a saved map known again.
func (q *Queue) restoreMap(s *saved.Map) error {
	if q.maps[s.ID] != nil {
		return fmt.Errorf("%w: map %d is there twice", saved.ErrRecord, s.ID)
	}
	m := &maps.Map{ID: s.ID, Head: s.Head, Bytes: s.Bytes, Address: s.Address, Offset: s.Offset,
		Flags: s.Flags, Runs: s.Runs, Voucher: s.Voucher}
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

// check returns an error for impossible runs of guest memory.
func (q *Queue) check(runs []wire.Run) error {
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
