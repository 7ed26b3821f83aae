// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/vouchers"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// eventChain is an EVENT chain: its head, and where its record goes.
type eventChain struct {
	head   uint16
	record uint64
}

// Take takes what the driver made available.
func (q *Queue) Take() (took bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

func (q *Queue) takeLocked() (took bool, err error) {
	for {
		c, ok, err := q.ring.Pop()
		var bad *virtqueue.ChainError
		if errors.As(err, &bad) {
			q.complain(err, "guest driver made a malformed chain available")
			q.config.State.Take(bad.Head, q.ring.Base())
			q.giveLocked(bad.Head, 0)
			continue
		}
		if err != nil {
			return took, fmt.Errorf("queue: %w", err)
		}
		if !ok {
			return took, nil
		}
		took = true
		q.config.State.Take(c.Head(), q.ring.Base())
		q.config.State.Count(handover.Chains, 1)
		if err := q.takeChain(c); err != nil {
			q.complain(err, "guest driver sent a bad chain")
			q.giveLocked(c.Head(), 0)
		}
	}
}

// complain logs what a guest did wrong.
func (q *Queue) complain(err error, what string) { q.config.Log.WithError(err).Warn(what) }

func (q *Queue) takeChain(c *virtqueue.Chain) error {
	var raw [wire.ChainHeaderSize]byte
	if _, err := c.ReadAt(raw[:], 0); err != nil {
		return fmt.Errorf("chain header: %w", err)
	}
	var h wire.ChainHeader
	h.Decode(raw[:])
	switch h.Type {
	case wire.ChainArena:
		return q.takeArena(&h)
	case wire.ChainEvent:
		if c.WriteLen() < wire.EventRecordSize || c.Writable()[0].Len < wire.EventRecordSize {
			return fmt.Errorf("EVENT chain with %d bytes to write: want the %d of a record, "+
				"together", c.WriteLen(), wire.EventRecordSize)
		}
		q.events = append(q.events, eventChain{c.Head(), c.Writable()[0].Addr})
		return nil
	case wire.ChainMap:
		return q.takeMap(c, &h)
	}
	return fmt.Errorf("chain of unknown type %d", h.Type)
}

// readRuns copies and checks the runs that a header leads to.
func (q *Queue) readRuns(h *wire.ChainHeader) ([]wire.Run, error) {
	if h.Runs == 0 || h.Runs > wire.RunsPerMap {
		return nil, fmt.Errorf("%d runs: want 1 to %d", h.Runs, wire.RunsPerMap)
	}
	raw := q.lists.scratch(int(h.Runs) * wire.RunSize)
	if err := q.readLists(raw, h); err != nil {
		return nil, fmt.Errorf("list of runs: %w", err)
	}
	runs := q.lists.get(int(h.Runs))
	total := uint64(0)
	for i := range runs {
		r := &runs[i]
		r.Decode(raw[i*wire.RunSize:])
		if err := q.mem.Check(r.Address, r.Bytes); err != nil || r.Bytes == 0 {
			return nil, fmt.Errorf("run %d of %d bytes: %w", i, r.Bytes,
				errors.Join(guestmem.ErrRange, err))
		}
		total += r.Bytes // each is within guest memory, and there are few: no overflow
	}
	if uint64(h.Offset) > total || h.Bytes > total-uint64(h.Offset) {
		return nil, fmt.Errorf("%d bytes at %d in runs of %d", h.Bytes, h.Offset, total)
	}
	return runs, nil
}

// readLists copies the lists of a header's runs, all of which but the last are full.
func (q *Queue) readLists(raw []byte, h *wire.ChainHeader) error {
	by := vouchers.Reason{Kind: vouchers.Lists, Chain: h.Voucher}
	if h.Runs <= wire.RunsPerList {
		return q.mem.ReadBy(raw, h.List, by.Right())
	}
	var table [8 * wire.RunsPerMap / wire.RunsPerList]byte
	lists := (int(h.Runs) + wire.RunsPerList - 1) / wire.RunsPerList
	whole := vouchers.Reason{Kind: vouchers.Table, Chain: h.Voucher}
	if err := q.mem.ReadBy(table[:8*lists], h.List, whole.Right()); err != nil {
		return err
	}
	for i := range lists {
		n := min(len(raw), wire.RunsPerList*wire.RunSize)
		by.Index = uint32(i)
		if err := q.mem.ReadBy(raw[:n], binary.LittleEndian.Uint64(table[8*i:]),
			by.Right()); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

func (q *Queue) takeArena(h *wire.ChainHeader) error {
	if q.arena != nil && !q.anew.takesArena() {
		return fmt.Errorf("a second arena, of %d bytes, on a channel that has one", h.Bytes)
	}
	runs, err := q.readRuns(h)
	if err != nil {
		return err
	}
	if q.anew.takesArena() {
		return q.arenaAgain(runs)
	}
	a, err := q.mapArena(runs)
	if err != nil {
		return err
	}
	q.Use(a)
	return nil
}

// mapArena maps the arena.
func (q *Queue) mapArena(runs []wire.Run) (*arena.Arena, error) {
	files, err := q.filesOf(runs, vouchers.Reason{Kind: vouchers.Arena})
	if err != nil {
		return nil, err
	}
	mem, unmap, err := arena.Map(files, 0, true)
	if err != nil {
		return nil, err
	}
	a, err := arena.New(mem)
	if err != nil {
		unmap()
		return nil, err
	}
	q.config.Dirty.Hold(runs)
	q.runs = runs
	return a, nil
}

// Use makes an arena the program's: one that came as a chain, or was saved.
func (q *Queue) Use(a *arena.Arena) {
	q.arena = a
	q.config.Attach(a)
}

// FilesOf gives the files behind a map, which must be whole pages of guest memory.
func (q *Queue) FilesOf(m *maps.Map) ([]guestmem.Run, error) {
	return q.filesOf(m.Runs, m.Reason(0))
}

// filesOf gives those behind runs, of which by reasons the first.
func (q *Queue) filesOf(runs []wire.Run, by vouchers.Reason) (files []guestmem.Run, err error) {
	for _, r := range runs {
		if r.Address%pageSize != 0 || r.Bytes%pageSize != 0 {
			return nil, fmt.Errorf("run of %d bytes at %#x: want whole pages of %d", r.Bytes,
				r.Address, pageSize)
		}
		first := len(files)
		if files, err = q.mem.AppendRuns(files, r.Address, r.Bytes); err != nil {
			return nil, err
		}
		for i := range files[first:] {
			files[first+i].Right = by.Right()
		}
		by.Index++
	}
	return files, nil
}

const pageSize = 4096

func (q *Queue) takeMap(c *virtqueue.Chain, h *wire.ChainHeader) error {
	if q.maps[h.Id] != nil && !q.anew.takesMap(h.Id) {
		return fmt.Errorf("map %d is in flight already", h.Id)
	}
	runs, err := q.readRuns(h)
	if err != nil {
		return err
	}
	if q.anew.takesMap(h.Id) {
		return q.mapAgain(c.Head(), h, runs)
	}
	m := &maps.Map{
		ID: h.Id, Head: c.Head(), Bytes: h.Bytes, Address: h.Address, Offset: uint64(h.Offset),
		Flags: h.Flags, Runs: runs, Voucher: h.Voucher,
	}
	if c.WriteLen() > 0 && !m.Oneshot() {
		return q.keep(c, m)
	}
	q.know(m)
	return nil
}

// know makes a map one that commands can name.
func (q *Queue) know(m *maps.Map) {
	q.maps[m.ID] = m
	if m.Writable() && !m.Oneshot() && len(m.Runs) > 0 {
		m.Dirty = q.config.Dirty.Hold(m.Runs)
	}
}
