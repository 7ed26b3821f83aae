// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/eventfd"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
	"github.com/paracuda/paracuda/virtqueue"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// chains is what the guest's kernel made available: one arena, chains to signal with, mapped pages.
//
// The queue is the loop's, and so is this, with one exception: while the loop is in a driver call,
// hostFuncs may have to wake the guest. Therefore mu.
type chains struct {
	log    *logrus.Entry
	state  *handover.State
	attach func(*arena.Arena) // is told of the arena

	mu     sync.Mutex // guards all of this; memory and queue change only while hostFuncs are held
	queue  *virtqueue.Queue
	mem    *guestmem.Memory
	call   int // eventfd that interrupts the guest, -1 for none
	arena  *arena.Arena
	runs   []wire.Run // the arena's
	config handover.Queue
	events []event // EVENT chains
	due    bool    // an EVENT is
	maps   map[uint32]*maps.Map
	kept   kept
	owed   *saved.Queue // goes on when there are a queue and the guest's memory; nil for most
	dirty  writes
	raw    []byte       // a run list as it arrives
	spare  [][]wire.Run // lists of mappings that were returned
}

// prepare is called before all others.
func (q *chains) prepare(
	log *logrus.Entry, state *handover.State, host *budget.Budget, attach func(*arena.Arena),
) {
	q.log, q.state, q.attach, q.kept.host = log, state, attach, host
	if q.maps == nil {
		q.maps = map[uint32]*maps.Map{}
	}
}

func (q *chains) scratch(bytes int) []byte {
	if cap(q.raw) < bytes {
		q.raw = make([]byte, bytes)
	}
	return q.raw[:bytes]
}

// maxSpare bounds the run lists that are kept, and maxSpareRuns their length: that of a part of a
// large copy.
const (
	maxSpare     = 16
	maxSpareRuns = 2048
)

// list returns a list of n runs to be filled.
func (q *chains) list(n int) []wire.Run {
	if last := len(q.spare) - 1; last >= 0 && n <= maxSpareRuns {
		runs := q.spare[last]
		q.spare = q.spare[:last]
		if n <= cap(runs) {
			return runs[:n]
		}
	}
	return make([]wire.Run, n)
}

// unlist takes a list back.
func (q *chains) unlist(runs []wire.Run) {
	if cap(runs) <= maxSpareRuns && len(q.spare) < maxSpare {
		q.spare = append(q.spare, runs)
	}
}

// event is an EVENT chain: its head and where its record goes.
type event struct {
	head   uint16
	record uint64
}

// takeChains takes what the driver made available.
func (q *chains) takeChains() (took bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeChainsLocked()
}

func (q *chains) takeChainsLocked() (took bool, err error) {
	for {
		c, ok, err := q.queue.Pop()
		var bad *virtqueue.ChainError
		if errors.As(err, &bad) {
			q.complain(err, "guest driver made a malformed chain available")
			q.state.Take(bad.Head, q.queue.Base())
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
		q.state.Take(c.Head(), q.queue.Base())
		q.state.Count(handover.Chains, 1)
		if err := q.takeChain(c); err != nil {
			q.complain(err, "guest driver sent a bad chain")
			q.giveLocked(c.Head(), 0)
		}
	}
}

// complain logs what a guest did wrong.
func (q *chains) complain(err error, what string) { q.log.WithError(err).Warn(what) }

func (q *chains) takeChain(c *virtqueue.Chain) error {
	var raw [wire.ChainHeaderSize]byte
	if _, err := c.ReadAt(raw[:], 0); err != nil {
		return fmt.Errorf("chain header: %w", err)
	}
	var h wire.ChainHeader
	h.Decode(raw[:])
	switch h.Type {
	case wire.ChainArena:
		return q.takeArena(c, &h)
	case wire.ChainEvent:
		if c.WriteLen() < wire.EventRecordSize || c.Writable()[0].Len < wire.EventRecordSize {
			return fmt.Errorf("EVENT chain with %d bytes to write: want the %d of a record, "+
				"together", c.WriteLen(), wire.EventRecordSize)
		}
		q.events = append(q.events, event{c.Head(), c.Writable()[0].Addr})
		return nil
	case wire.ChainMap:
		return q.takeMap(c, &h)
	}
	return fmt.Errorf("chain of unknown type %d", h.Type)
}

// readRuns copies and checks the run list behind a header.
func (q *chains) readRuns(c *virtqueue.Chain, h *wire.ChainHeader) ([]wire.Run, error) {
	if h.Runs == 0 || h.Runs > wire.RunsPerMap {
		return nil, fmt.Errorf("run list of %d runs: want 1 to %d", h.Runs, wire.RunsPerMap)
	}
	raw := q.scratch(int(h.Runs) * wire.RunSize)
	if _, err := c.ReadAt(raw, wire.ChainHeaderSize); err != nil {
		return nil, fmt.Errorf("run list: %w", err)
	}
	runs := q.list(int(h.Runs))
	total := uint64(0)
	for i := range runs {
		r := &runs[i]
		r.Address = binary.LittleEndian.Uint64(raw[i*wire.RunSize:])
		r.Bytes = binary.LittleEndian.Uint64(raw[i*wire.RunSize+8:])
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

func (q *chains) takeArena(c *virtqueue.Chain, h *wire.ChainHeader) error {
	if q.arena != nil {
		return fmt.Errorf("a second arena, of %d bytes, on a channel that has one", h.Bytes)
	}
	runs, err := q.readRuns(c, h)
	if err != nil {
		return err
	}
	a, err := q.mapArena(runs)
	if err != nil {
		return err
	}
	q.use(a)
	return nil
}

// mapArena maps the arena.
func (q *chains) mapArena(runs []wire.Run) (*arena.Arena, error) {
	files, err := q.filesOf(runs)
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
	q.dirty.hold(runs)
	q.runs = runs
	return a, nil
}

// use makes a the arena.
func (q *chains) use(a *arena.Arena) {
	q.arena = a
	q.attach(a)
}

// filesOf gives the files behind whole pages of guest memory.
func (q *chains) filesOf(runs []wire.Run) (files []guestmem.Run, err error) {
	for _, r := range runs {
		if r.Address%pageSize != 0 || r.Bytes%pageSize != 0 {
			return nil, fmt.Errorf("run of %d bytes at %#x: want whole pages of %d", r.Bytes,
				r.Address, pageSize)
		}
		if files, err = q.mem.AppendRuns(files, r.Address, r.Bytes); err != nil {
			return nil, err
		}
	}
	return files, nil
}

const pageSize = 4096

func (q *chains) takeMap(c *virtqueue.Chain, h *wire.ChainHeader) error {
	if q.maps[h.Id] != nil {
		return fmt.Errorf("map %d is in flight already", h.Id)
	}
	runs, err := q.readRuns(c, h)
	if err != nil {
		return err
	}
	m := &maps.Map{
		ID: h.Id, Head: c.Head(), Bytes: h.Bytes, Address: h.Address, Offset: uint64(h.Offset),
		Flags: h.Flags, Runs: runs,
	}
	if c.WriteLen() > 0 && !m.Oneshot() {
		return q.keep(c, m)
	}
	q.know(m)
	return nil
}

// know makes a map one that commands can name.
func (q *chains) know(m *maps.Map) {
	q.maps[m.ID] = m
	if m.Writable() && !m.Oneshot() && len(m.Runs) > 0 {
		m.Dirty = q.dirty.hold(m.Runs)
	}
}

// Find returns a map that a command names, taking new chains if it has not arrived yet.
func (q *chains) Find(id uint32) *maps.Map {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.maps[id]; m != nil {
		return m
	}
	if _, err := q.takeChainsLocked(); err != nil {
		q.complain(err, "queue broke")
	}
	return q.maps[id]
}

// giveLocked returns a chain to the driver. The device process knows what to do about it wherever
// in here the worker ends.
func (q *chains) giveLocked(head uint16, written uint32) {
	q.state.Giving(head, q.queue.NextUsed())
	if err := q.queue.Push(head, written); err != nil {
		q.complain(err, "return a chain")
	}
	q.state.Give(head)
	if q.queue.NeedsNotify() && q.call >= 0 {
		eventfd.Notify(q.call)
		q.state.Count(handover.Interrupts, 1)
	}
}

// Return gives a map back: its chain, or if that went back long ago its id.
func (q *chains) Return(m *maps.Map) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maps[m.ID] != m {
		return
	}
	delete(q.maps, m.ID)
	q.dirty.letGo(m.Dirty)
	q.unlist(m.Runs)
	m.Runs = nil
	if m.Kept {
		q.kept.letGo(m)
		return
	}
	q.giveLocked(m.Head, 0)
}

// Read copies from guest memory, and Write to it.
func (q *chains) Read(b []byte, address uint64) error { return q.mem.Read(b, address) }

// Write copies to guest memory.
func (q *chains) Write(b []byte, address uint64) error { return q.mem.Write(b, address) }

// signal wakes the guest's sleeping threads and names the maps that go back, if that is due and
// the driver has left a chain to do it with.
func (q *chains) signal() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due || len(q.kept.gone) > 0 {
		q.signalLocked()
	}
}

// wakeSleepers wakes the guest's threads that sleep, after an answer was written. Any goroutine may
// call it.
func (q *chains) wakeSleepers() {
	if !q.arena.Sleepers() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due = true
	if len(q.events) == 0 {
		if _, err := q.takeChainsLocked(); err != nil {
			q.complain(err, "queue broke")
		}
	}
	q.signalLocked()
}

func (q *chains) signalLocked() {
	if len(q.events) == 0 {
		return
	}
	last := len(q.events) - 1
	e := q.events[last]
	q.events = q.events[:last]
	var raw [wire.EventRecordSize]byte
	record, maps := q.kept.record(&raw, q.due)
	q.due = false
	if err := q.mem.Write(record, e.record); err != nil {
		record = nil
	} else {
		q.kept.told(maps)
	}
	q.giveLocked(e.head, uint32(len(record)))
}

// EnableKick has the guest's driver kick for new chains. It says whether there are some already.
func (q *chains) EnableKick() (more bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.EnableKick()
}

// DisableKick has it spare that.
func (q *chains) DisableKick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.DisableKick()
}

// setCall changes how the guest is interrupted, and interrupts it: the front end may no longer have
// looked at the old descriptor when it was last signalled.
func (q *chains) setCall(fd int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.call >= 0 {
		unix.Close(q.call)
	}
	if q.call = fd; fd >= 0 {
		eventfd.Notify(fd)
	}
}
