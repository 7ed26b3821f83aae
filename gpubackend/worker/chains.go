// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// chains is what the guest's kernel made available: one arena, chains to signal with, mapped pages.
//
// The queue is the loop's, and so is this, with one exception: while the loop is in a driver call, hostFuncs may have to
// wake the guest. Therefore mu.
type chains struct {
	mu     sync.Mutex // guards Worker.queue and all of this; memory and queue change only while hostFuncs are held
	config handover.Queue
	events []event // EVENT chains
	signal bool    // an EVENT is due
	maps   map[uint32]*mapping
	raw    []byte       // a run list as it arrives
	spare  [][]wire.Run // lists of mappings that were returned
}

func (c *chains) scratch(bytes int) []byte {
	if cap(c.raw) < bytes {
		c.raw = make([]byte, bytes)
	}
	return c.raw[:bytes]
}

// maxSpare bounds the run lists that are kept, and maxSpareRuns their length: that of a part of a large copy.
const (
	maxSpare     = 16
	maxSpareRuns = 2048
)

// list returns a list of n runs to be filled.
func (c *chains) list(n int) []wire.Run {
	if last := len(c.spare) - 1; last >= 0 && n <= maxSpareRuns {
		runs := c.spare[last]
		c.spare = c.spare[:last]
		if n <= cap(runs) {
			return runs[:n]
		}
	}
	return make([]wire.Run, n)
}

// unlist takes a list back.
func (c *chains) unlist(runs []wire.Run) {
	if cap(runs) <= maxSpareRuns && len(c.spare) < maxSpare {
		c.spare = append(c.spare, runs)
	}
}

// event is an EVENT chain: its head and where its record goes.
type event struct {
	head   uint16
	record uint64
}

// mapping is a MAP chain: pinned pages of the guest process.
type mapping struct {
	id      uint32
	head    uint16
	bytes   uint64
	address uint64 // guest-virtual
	offset  uint64 // of the first byte in the runs
	flags   uint32
	runs    []wire.Run
	shown   uint64 // bytes that lie at the guest's own addresses (pageable)
	places  int    // that these take
	users   int    // copies in progress, and one while any are shown
	unmap   bool   // to be returned when users is 0
}

// takeChains takes what the driver made available.
func (w *Worker) takeChains() (took bool, err error) {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	return w.takeChainsLocked()
}

func (w *Worker) takeChainsLocked() (took bool, err error) {
	for {
		c, ok, err := w.queue.Pop()
		var bad *virtqueue.ChainError
		if errors.As(err, &bad) {
			w.complain(err, "guest driver made a malformed chain available")
			w.state.Take(bad.Head, w.queue.Base())
			w.giveLocked(bad.Head, 0)
			continue
		}
		if err != nil {
			return took, fmt.Errorf("queue: %w", err)
		}
		if !ok {
			return took, nil
		}
		took = true
		w.state.Take(c.Head(), w.queue.Base())
		w.state.Count(handover.Chains, 1)
		if err := w.takeChain(c); err != nil {
			w.complain(err, "guest driver sent a bad chain")
			w.giveLocked(c.Head(), 0)
		}
	}
}

// complain logs what a guest did wrong.
func (w *Worker) complain(err error, what string) { w.log.WithError(err).Warn(what) }

func (w *Worker) takeChain(c *virtqueue.Chain) error {
	var raw [wire.ChainHeaderSize]byte
	if _, err := c.ReadAt(raw[:], 0); err != nil {
		return fmt.Errorf("chain header: %w", err)
	}
	var h wire.ChainHeader
	h.Decode(raw[:])
	switch h.Type {
	case wire.ChainArena:
		return w.takeArena(c, &h)
	case wire.ChainEvent:
		if c.WriteLen() < wire.EventRecordSize || c.Writable()[0].Len < wire.EventRecordSize {
			return errors.New("event chain without a record")
		}
		w.chains.events = append(w.chains.events, event{c.Head(), c.Writable()[0].Addr})
		return nil
	case wire.ChainMap:
		return w.takeMap(c, &h)
	}
	return fmt.Errorf("chain of unknown type %d", h.Type)
}

// readRuns copies and checks the run list behind a header.
func (w *Worker) readRuns(c *virtqueue.Chain, h *wire.ChainHeader) ([]wire.Run, error) {
	if h.Runs == 0 || h.Runs > wire.RunsPerMap {
		return nil, fmt.Errorf("%d runs", h.Runs)
	}
	raw := w.chains.scratch(int(h.Runs) * wire.RunSize)
	if _, err := c.ReadAt(raw, wire.ChainHeaderSize); err != nil {
		return nil, fmt.Errorf("run list: %w", err)
	}
	runs := w.chains.list(int(h.Runs))
	total := uint64(0)
	for i := range runs {
		r := &runs[i]
		r.Address = binary.LittleEndian.Uint64(raw[i*wire.RunSize:])
		r.Bytes = binary.LittleEndian.Uint64(raw[i*wire.RunSize+8:])
		if err := w.mem.Check(r.Address, r.Bytes); err != nil || r.Bytes == 0 {
			return nil, fmt.Errorf("run %d of %d bytes: %w", i, r.Bytes, errors.Join(guestmem.ErrRange, err))
		}
		total += r.Bytes // each is within guest memory, and there are few: no overflow
	}
	if uint64(h.Offset) > total || h.Bytes > total-uint64(h.Offset) {
		return nil, fmt.Errorf("%d bytes at %d in runs of %d", h.Bytes, h.Offset, total)
	}
	return runs, nil
}

func (w *Worker) takeArena(c *virtqueue.Chain, h *wire.ChainHeader) error {
	if w.arena != nil {
		return errors.New("second arena")
	}
	runs, err := w.readRuns(c, h)
	if err != nil {
		return err
	}
	pieces, err := w.pieces(runs)
	if err != nil {
		return err
	}
	mem, _, err := arena.Map(pieces, 0, true)
	if err != nil {
		return err
	}
	w.arena, err = arena.New(mem)
	return err
}

// pieces gives the files behind whole pages of guest memory.
func (w *Worker) pieces(runs []wire.Run) (pieces []guestmem.Run, err error) {
	for _, r := range runs {
		if r.Address%pageSize != 0 || r.Bytes%pageSize != 0 {
			return nil, errors.New("run that is not whole pages")
		}
		if pieces, err = w.mem.AppendRuns(pieces, r.Address, r.Bytes); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

const pageSize = 4096

func (w *Worker) takeMap(c *virtqueue.Chain, h *wire.ChainHeader) error {
	if w.chains.maps[h.Id] != nil {
		return fmt.Errorf("map %d is in flight already", h.Id)
	}
	runs, err := w.readRuns(c, h)
	if err != nil {
		return err
	}
	w.chains.maps[h.Id] = &mapping{
		id: h.Id, head: c.Head(), bytes: h.Bytes, address: h.Address, offset: uint64(h.Offset), flags: h.Flags, runs: runs,
	}
	return nil
}

// findMap returns a mapping that a command names, taking new chains if it has not arrived yet.
func (w *Worker) findMap(id uint32) *mapping {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	if m := w.chains.maps[id]; m != nil {
		return m
	}
	if _, err := w.takeChainsLocked(); err != nil {
		w.complain(err, "queue broke")
	}
	return w.chains.maps[id]
}

// giveLocked returns a chain to the driver. The device process knows what to do about it wherever in here the worker ends.
func (w *Worker) giveLocked(head uint16, written uint32) {
	w.state.Giving(head, w.queue.NextUsed())
	if err := w.queue.Push(head, written); err != nil {
		w.complain(err, "return a chain")
	}
	w.state.Give(head)
	if w.queue.NeedsNotify() && w.call >= 0 {
		notify(w.call)
		w.state.Count(handover.Interrupts, 1)
	}
}

// giveMap returns a mapping as soon as no copy uses it.
func (w *Worker) giveMap(m *mapping) {
	m.unmap = true
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	if m.users == 0 && w.chains.maps[m.id] == m {
		delete(w.chains.maps, m.id)
		w.chains.unlist(m.runs)
		m.runs = nil
		w.giveLocked(m.head, 0)
	}
}

// release ends a copy's use of a mapping.
func (w *Worker) release(m *mapping) {
	m.users--
	if m.unmap || m.flags&wire.MapFlagOneshot != 0 {
		w.giveMap(m)
	}
}

// signal wakes the guest's sleeping threads if that is due and the driver has left a chain to do it with.
func (w *Worker) signal() {
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	if w.chains.signal {
		w.signalLocked()
	}
}

// wakeSleepers wakes the guest's threads that sleep, after an answer was written. Any goroutine may call it.
func (w *Worker) wakeSleepers() {
	if !w.arena.Sleepers() {
		return
	}
	w.chains.mu.Lock()
	defer w.chains.mu.Unlock()
	w.chains.signal = true
	if len(w.chains.events) == 0 {
		if _, err := w.takeChainsLocked(); err != nil {
			w.complain(err, "queue broke")
		}
	}
	w.signalLocked()
}

func (w *Worker) signalLocked() {
	if len(w.chains.events) == 0 {
		return
	}
	last := len(w.chains.events) - 1
	e := w.chains.events[last]
	w.chains.events = w.chains.events[:last]
	w.chains.signal = false
	var raw [wire.EventRecordSize]byte
	r := wire.EventRecord{Events: wire.EventCompletion}
	r.Encode(raw[:])
	written := uint32(wire.EventRecordSize)
	if err := w.mem.Write(raw[:], e.record); err != nil {
		written = 0
	}
	w.giveLocked(e.head, written)
}
