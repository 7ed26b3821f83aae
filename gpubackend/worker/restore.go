// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// errRestore is wrapped by errors of a record that doesn't suit the worker.
var errRestore = errors.New("the record doesn't suit")

// restoreFrom makes the worker, which has done nothing yet, what was written to a record. Until all
// of it is true nothing of the guest's is changed, and after an error the worker ends.
func (w *Worker) restoreFrom(fd int) error {
	if fd < 0 {
		return fmt.Errorf("%w: there is no file", errRestore)
	}
	f := os.NewFile(uintptr(fd), "record")
	defer f.Close()
	if !w.driver.Saves() {
		return errors.New(w.driver.Unsavable())
	}
	r, err := record.NewReader(f)
	if err != nil {
		return err
	}
	return w.restore(r)
}

func (w *Worker) restore(r *record.Reader) error {
	state, err := savedvm.ReadAll(r, savedvm.StateName, savedvm.MaxState)
	if err != nil {
		return err
	}
	s, err := saved.Decode(state)
	if err != nil {
		return err
	}
	if err := w.chains.restore(&s.Queue); err != nil {
		return err
	}
	w.hostFuncs.GoOn(s.HostFuncs)
	if err := w.reopen(s); err != nil {
		return err
	}
	if err := w.remake(r, s); err != nil {
		return err
	}
	if err := w.reload(r, s.Pieces); err != nil {
		return err
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: it goes on behind its end", errRestore), err)
	}
	return nil
}

// reopen opens the device, which must be as it was.
func (w *Worker) reopen(s *saved.State) error {
	variables := make([]string, len(s.Environment))
	for i, variable := range s.Environment {
		variables[i] = string(variable)
	}
	if result := w.open(variables); result != gpubackend.Success {
		return fmt.Errorf("open the device: %w", result.Err())
	}
	if !bytes.Equal(w.told.snapshot, s.Snapshot) {
		return fmt.Errorf("%w: the GPUs are others than the program was told of", errRestore)
	}
	w.opened = true
	return w.hostMemory.Restore(&s.Pinned)
}

// remake makes all objects again, and the layout of device memory.
func (w *Worker) remake(r *record.Reader, s *saved.State) error {
	table, err := savedvm.ReadAll(r, savedvm.ObjectsName, savedvm.MaxObjects)
	if err != nil {
		return err
	}
	entries, err := readJournal(r)
	if err != nil {
		return err
	}
	if _, err := savedvm.Next(r, savedvm.LayoutName, savedvm.MaxLayout); err != nil {
		return err
	}
	if err := w.driver.RestoreLayout(r); err != nil {
		return err
	}
	objects, err := object.Restore(&w.objects, bytes.NewReader(table))
	if err != nil {
		return err
	}
	codes, places := codesOf(s.Codes), placesOf(s)
	err = w.history.Replay(entries, w.dispatch, func(made []uint64) error {
		if err := objects.Next(made...); err != nil {
			return err
		}
		return w.place(places, made)
	}, func(made []uint64) error { return w.loadCode(codes, made) })
	if err != nil {
		return err
	}
	if err := w.retake(s); err != nil {
		return err
	}
	next := func(handle uint64) error { return objects.Next(handle) }
	if err := w.pools.Restore(&s.Pools, next); err != nil {
		return err
	}
	current := func(context uint64) gpubackend.Result { return w.contexts.Set(context, false) }
	if err := w.textures.Restore(s.Textures, current); err != nil {
		return err
	}
	err = w.graphs.Restore(&s.Graphs,
		&graphs.Restoring{Buffers: &w.buffers, Next: next, Current: current})
	if err != nil {
		return err
	}
	if err := w.driver.LayoutRestored(); err != nil {
		return err
	}
	return objects.Done()
}

func readJournal(r *record.Reader) (list []journal.Entry, err error) {
	n, err := savedvm.Next(r, savedvm.JournalName, savedvm.MaxJournal)
	if err != nil {
		return nil, err
	}
	for j := journal.NewReader(r, n); ; {
		switch e, err := j.Next(); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		default:
			list = append(list, e)
		}
	}
}

// codesOf are the places of libraries' code by the handles that they depend on.
func codesOf(list []saved.Code) map[uint64][]saved.Code {
	by := map[uint64][]saved.Code{}
	for _, x := range list {
		if x.Library != 0 {
			by[x.Library] = append(by[x.Library], x)
			by[x.Context] = append(by[x.Context], x)
		}
	}
	return by
}

// placesOf are where modules have their variables, and arrays their memory, by handle.
func placesOf(s *saved.State) map[uint64]uint64 {
	places := map[uint64]uint64{}
	for _, x := range s.Codes {
		if x.Library == 0 {
			places[x.Module] = x.Address
		}
	}
	for _, a := range s.Arrays {
		places[a.Array] = a.Address
	}
	return places
}

// place says where what is about to be made has its memory.
func (w *Worker) place(places map[uint64]uint64, made []uint64) error {
	for _, h := range made {
		if address, ok := places[h]; ok {
			return w.driver.PlaceCode(address)
		}
	}
	return nil
}

// loadCode makes code of libraries where the library or the context was just made, and the other is
// there: the program may have launched its kernels before it did anything else with it.
func (w *Worker) loadCode(codes map[uint64][]saved.Code, made []uint64) error {
	for _, h := range made {
		for _, x := range codes[h] {
			l, ok := w.objects.Lookup(object.Library, x.Library)
			if !ok || !w.objects.Has(x.Context) {
				continue
			}
			if result := w.contexts.Set(x.Context, false); result != gpubackend.Success {
				return fmt.Errorf("make a library's code: %w", result.Err())
			}
			if err := w.driver.PlaceCode(x.Address); err != nil {
				return err
			}
			result := w.driver.LoadCode(gpubackend.Library(l))
			if result != gpubackend.Success {
				return fmt.Errorf("make a library's code: %w", result.Err())
			}
		}
	}
	return nil
}

// retake takes over the memory that the program had, and what its events have recorded.
func (w *Worker) retake(s *saved.State) error {
	for _, a := range s.Allocations {
		result := w.contexts.Set(a.Context, false)
		if result == gpubackend.Success {
			result = w.driver.TakeAllocation(
				gpubackend.Allocation{Address: a.Address, Bytes: a.Bytes})
		}
		if result != gpubackend.Success {
			return fmt.Errorf("take %d bytes at %#x: %w", a.Bytes, a.Address, result.Err())
		}
	}
	for _, r := range s.Reserved {
		if result := w.memory.Reserve(r); result != gpubackend.Success {
			return fmt.Errorf("reserve %d bytes at %#x: %w", r.Bytes, r.Base, result.Err())
		}
	}
	var times []gpubackend.EventTime
	for _, t := range s.Events {
		e, ok := w.objects.Lookup(object.Event, t.Event)
		if !ok {
			return fmt.Errorf("%w: %#x is no event", errRestore, t.Event)
		}
		times = append(times, gpubackend.EventTime{Event: gpubackend.Event(e), Ago: t.Ago})
	}
	if result := w.driver.SetEventTimes(times); result != gpubackend.Success {
		return fmt.Errorf("set the events' times: %w", result.Err())
	}
	return nil
}

// reload fills device memory.
func (w *Worker) reload(r *record.Reader, pieces []gpubackend.Piece) error {
	n, err := savedvm.Next(r, savedvm.MemoryName, 1<<62)
	if err != nil || n == 0 {
		return err
	}
	if n != gpubackend.PieceBytes(pieces) {
		return fmt.Errorf("%w: it has %d bytes of device memory, not %d", errRestore, n,
			gpubackend.PieceBytes(pieces))
	}
	i, err := image.New(n)
	if err != nil {
		return err
	}
	w.images.Add(n)
	defer func() {
		i.Close()
		w.images.Add(-n)
	}()
	if _, err := io.ReadFull(r, i.Bytes()); err != nil {
		return fmt.Errorf("read device memory: %w", err)
	}
	if result := w.driver.LoadPieces(pieces, i.Bytes()); result != gpubackend.Success {
		return fmt.Errorf("fill device memory: %w", result.Err())
	}
	return nil
}

// restore takes over what came through the queue, at which this worker begins.
func (q *chains) restore(s *saved.Queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	has := q.queue.AppendInFlight(nil)
	slices.Sort(has)
	slices.Sort(s.InFlight)
	if s.Base != q.queue.Base() || !slices.Equal(s.InFlight, has) {
		return fmt.Errorf("%w: the queue is elsewhere", errRestore)
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
		return fmt.Errorf("%w: it has %d maps, of which %d are gone", errRestore, s.KeptMaps,
			len(s.Gone))
	}
	q.due, q.kept.maps, q.kept.gone = s.Due, s.KeptMaps, s.Gone
	return nil
}

// restoreMap makes a map known that was known.
func (q *chains) restoreMap(s *saved.Map) error {
	if q.maps[s.ID] != nil {
		return fmt.Errorf("%w: map %d is there twice", errRestore, s.ID)
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
		return fmt.Errorf("%w: map %d has %d bytes in %d", errRestore, m.ID, m.Bytes, total)
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
		return fmt.Errorf("%w: %d runs of guest memory", errRestore, len(runs))
	}
	for _, r := range runs {
		if err := q.mem.Check(r.Address, r.Bytes); err != nil || r.Bytes == 0 {
			return errors.Join(fmt.Errorf("%w: %d bytes of guest memory at %#x", errRestore,
				r.Bytes, r.Address), err)
		}
	}
	return nil
}
