// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	stdmaps "maps"
	"os"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/history"
	"github.com/paracuda/paracuda/gpubackend/worker/maps"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// A worker whose memory is out writes all that its program has, as a record of one program (package
// saved), and is ended then. Until that it can go on as if nothing had been.

// historyPart of what the guest process may take of the host's memory the history may take beside,
// but no more than historyMost.
const (
	historyPart = 8
	historyMost = 256 << 20
)

func (w *Worker) makeHistory() {
	w.history = nil
	if !w.driver.Saves() {
		return
	}
	most := uint64(historyMost)
	if w.host != nil {
		most = min(most, w.host.Limit()/historyPart)
	}
	w.history = history.New(history.Config{
		Objects: &w.objects, Buffers: &w.buffers, Memory: budget.New(most),
	})
}

// errWaits are why a program can't be saved that has calls under way.
var (
	errRoom    = errors.New("a call waits for device memory")
	errHost    = errors.New("a host function is to run")
	errDead    = errors.New("its context has failed")
	errNothing = errors.New("it hasn't begun to use the GPU")
)

// unsavable says why the program can't be saved now; nil: it can.
func (w *Worker) unsavable() error {
	if !w.driver.Saves() {
		return errors.New(w.driver.Unsavable())
	}
	if err := w.history.Refused(); err != nil {
		return err
	}
	if c := w.fixed().Map(); c != nil {
		return fmt.Errorf("what it has can't be made again: %s",
			strings.Join(slices.Sorted(stdmaps.Keys(c)), ", "))
	}
	_, waits := w.hostFuncs.Told()
	switch {
	case !w.opened:
		return errNothing
	case w.room.waits:
		return errRoom
	case waits:
		return errHost
	case len(w.waiters) > 0 || w.chains.used(w.hostMemory.Uses):
		return errWorks
	}
	for context := range w.objects.All(object.Context) {
		if w.contexts.Set(context, true) != 0 || w.driver.ContextQuery() != 0 {
			return errDead
		}
	}
	if why := w.driver.Unsavable(); why != "" {
		return errors.New(why)
	}
	if _, err := w.graphs.Save(); err != nil {
		return err
	}
	if _, err := w.textures.Save(); err != nil {
		return err
	}
	_, err := w.entries()
	return err
}

// entries are the commands that make the objects again which no room makes.
func (w *Worker) entries() ([]journal.Entry, error) {
	return w.history.Entries(w.objects.Count(object.Pool) + w.graphs.Saves())
}

// used says whether anything uses maps otherwise than rightly.
func (q *chains) used(rightly func(*maps.Map) int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.maps {
		if m.Users() > rightly(m) || m.Leaving() {
			return true
		}
	}
	return false
}

// saveTo writes the program to a pipe, and answers.
func (w *Worker) saveTo(fd int) error {
	answer := &handover.Message{Kind: handover.KindSaved}
	if err := w.saveToFile(fd); err != nil {
		answer.Error = err.Error()
	}
	return w.control.Send(answer, nil)
}

func (w *Worker) saveToFile(fd int) error {
	if fd < 0 {
		return errors.New("save: there is no file")
	}
	f := os.NewFile(uintptr(fd), "record")
	defer f.Close()
	if err := w.mayMove(); err != nil {
		return err
	}
	if err := w.unsavable(); err != nil {
		return err
	}
	return w.save(f)
}

// save writes the program, whose memory is out, if it has any.
func (w *Worker) save(to io.Writer) error {
	pieces, image, out := w.suspension.Image()
	if !out {
		return errors.New("save: device memory is in")
	}
	s, err := w.saved()
	if err != nil {
		return err
	}
	s.Pieces = pieces
	state, err := s.Encode()
	if err != nil {
		return err
	}
	list, err := w.entries()
	if err != nil {
		return err
	}
	r, err := record.NewWriter(to, record.Header{GPU: w.gpu})
	if err != nil {
		return err
	}
	var layout bytes.Buffer
	if err := w.driver.SaveLayout(&layout); err != nil {
		return err
	}
	for _, x := range []struct {
		name  string
		bytes uint64
		write func() error
	}{
		{savedvm.StateName, uint64(len(state)), func() error { return whole(r, state) }},
		{savedvm.ObjectsName, w.objects.SavedBytes(), func() error { return w.objects.Save(r) }},
		{savedvm.JournalName, journal.SavedBytes(list),
			func() error { return journal.Save(r, list) }},
		{savedvm.LayoutName, uint64(layout.Len()),
			func() error { return whole(r, layout.Bytes()) }},
		{savedvm.MemoryName, uint64(len(image)), func() error { return whole(r, image) }},
	} {
		if err := r.Begin(record.Section{Program: 1, Name: x.name, Bytes: x.bytes}); err != nil {
			return err
		}
		if err := x.write(); err != nil {
			return err
		}
	}
	return r.End()
}

func whole(to io.Writer, b []byte) error {
	_, err := to.Write(b)
	return err
}

// saved is what there is beside what others write.
func (w *Worker) saved() (*saved.State, error) {
	pools, err := w.pools.Save()
	if err != nil {
		return nil, err
	}
	graphs, err := w.graphs.Save()
	if err != nil {
		return nil, err
	}
	textures, err := w.textures.Save()
	if err != nil {
		return nil, err
	}
	seq, _ := w.hostFuncs.Told()
	s := &saved.State{
		Snapshot: w.told.snapshot, HostFuncs: seq,
		Queue: *w.chains.saved(), Pools: *pools, Reserved: w.memory.Reserved(),
		Pinned: w.hostMemory.Save(), Graphs: *graphs, Textures: textures,
		Arrays: w.savedArrays(),
	}
	for _, variable := range w.told.environment {
		s.Environment = append(s.Environment, []byte(variable))
	}
	contexts, modules := w.named(object.Context), w.named(object.Module)
	libraries, events := w.named(object.Library), w.named(object.Event)
	for _, a := range w.driver.Allocated() {
		s.Allocations = append(s.Allocations,
			saved.Allocation{Address: a.Address, Bytes: a.Bytes,
				Context: contexts[uint64(a.Context)]})
	}
	for _, x := range w.driver.Codes() {
		s.Codes = append(s.Codes, saved.Code{
			Address: x.Address, Context: contexts[uint64(x.Context)],
			Module: modules[uint64(x.Module)], Library: libraries[uint64(x.Library)],
		})
	}
	for _, t := range w.driver.EventTimes() {
		if h := events[uint64(t.Event)]; h != 0 { // others are the worker's own
			s.Events = append(s.Events, saved.EventTime{Event: h, Ago: t.Ago})
		}
	}
	return s, nil
}

// savedArrays are where arrays have their memory.
func (w *Worker) savedArrays() (list []saved.Array) {
	arrays, mipmapped := w.named(object.Array), w.named(object.MipmappedArray)
	for _, a := range w.driver.ArrayPlaces() {
		h := arrays[uint64(a.Array)]
		if a.Array == 0 {
			h = mipmapped[uint64(a.Mipmapped)]
		}
		list = append(list, saved.Array{Address: a.Address, Array: h})
	}
	return list
}

// named are the handles of objects, by the device's own.
func (w *Worker) named(kind object.Kind) map[uint64]uint64 {
	names := map[uint64]uint64{}
	for h, native := range w.objects.All(kind) {
		names[native] = h
	}
	return names
}

// saved is what came through the queue. All that the guest has back of the ring is consumed.
func (q *chains) saved() *saved.Queue {
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
