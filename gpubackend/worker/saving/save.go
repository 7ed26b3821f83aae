// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// Save writes the program, in which nothing is under way, as a record of one program. It can go on
// as if nothing had been. rest says where device memory is that isn't written.
func (s *Saving) Save(to io.Writer, rest savedvm.Rest) error {
	if err := s.Unsavable(); err != nil {
		return err
	}
	if why := s.failed(); why != gpubackend.Success {
		return s.saveFailed(to, why, rest)
	}
	state, err := s.state()
	if err != nil {
		return err
	}
	memory, err := s.planned(state, rest)
	if err != nil {
		return err
	}
	text, err := state.Encode()
	if err != nil {
		return err
	}
	list, err := s.executed()
	if err != nil {
		return err
	}
	var layout bytes.Buffer
	if err := s.Driver.SaveLayout(&layout); err != nil {
		return err
	}
	return s.write(to, []section{
		whole(savedvm.StateName, text),
		{savedvm.ObjectsName, s.Objects.SavedBytes(), s.Objects.Save},
		{savedvm.JournalName, journal.SavedBytes(list),
			func(to io.Writer) error { return journal.Save(to, list) }},
		whole(savedvm.LayoutName, layout.Bytes()),
		whole(savedvm.SameName, memory.same),
		memory.section,
	})
}

// write writes a record of one program.
func (s *Saving) write(to io.Writer, list []section) error {
	r, err := record.NewWriter(to, record.Header{GPU: s.GPU})
	if err != nil {
		return err
	}
	for _, x := range list {
		if err := r.Begin(record.Section{Program: 1, Name: x.name, Bytes: x.bytes}); err != nil {
			return err
		}
		if err := x.write(r); err != nil {
			return err
		}
	}
	return r.End()
}

// plannedMemory is the section of device memory, and what is in the file.
type plannedMemory struct {
	section
	same []byte
}

// planned is what is written of device memory. It notes in the state what that is.
func (s *Saving) planned(x *saved.State, rest savedvm.Rest) (p plannedMemory, err error) {
	x.Pieces = s.DeviceMemory.All()
	changed := x.Pieces
	switch {
	case rest == savedvm.Ahead:
		if x.Changed, err = s.Precopied.Changed(x.Pieces); err != nil {
			return p, err
		}
		x.Ahead, changed = true, x.Changed
	case rest == savedvm.Filed && s.DeviceMemory.ImageBytes() == 0: // what is out isn't compared
		var runs []savedvm.SameRun
		runs, changed = s.Filed.Compare(x.Pieces)
		p.same = savedvm.EncodeRuns(runs)
	case rest == savedvm.Early && s.DeviceMemory.ImageBytes() == 0:
		var runs []savedvm.SameRun
		if runs, changed, err = s.Precopied.Early(x.Pieces); err != nil {
			return p, err
		}
		p.same = savedvm.EncodeRuns(runs)
	}
	p.section = section{savedvm.MemoryName, gpubackend.PieceBytes(changed),
		func(to io.Writer) error { return s.DeviceMemory.SavePart(changed, to) }}
	if !x.Ahead && len(p.same) == 0 {
		p.write = s.DeviceMemory.Save
	}
	return p, nil
}

// section is a section of the record.
type section struct {
	name  string
	bytes uint64
	write func(to io.Writer) error
}

// whole is a section whose bytes are there already.
func whole(name string, b []byte) section {
	return section{name, uint64(len(b)), func(to io.Writer) error {
		_, err := to.Write(b)
		return err
	}}
}

// state is everything that isn't written by others.
func (s *Saving) state() (*saved.State, error) {
	pools, err := s.Pools.Save()
	if err != nil {
		return nil, err
	}
	graphs, err := s.Graphs.Save()
	if err != nil {
		return nil, err
	}
	textures, err := s.Textures.Save()
	if err != nil {
		return nil, err
	}
	x := s.stateOfGuest()
	x.Pools, x.Virtual, x.Graphs, x.Textures = *pools, s.Memory.Save(), *graphs, textures
	x.Arrays, x.Shared, x.Imports = s.arrays(), s.Sharing.Save(), s.Imports.Save()
	s.stateOfDevice(x)
	return x, nil
}

// stateOfGuest is what the guest process and the worker have told each other, and the guest's
// memory.
func (s *Saving) stateOfGuest() *saved.State {
	seq, _ := s.HostFuncs.Told()
	environment, inventory := s.Hello.Told()
	x := &saved.State{Inventory: inventory, HostFuncs: seq, Queue: *s.Queue.Saved(),
		Pinned: s.HostMemory.Save()}
	for _, variable := range environment {
		x.Environment = append(x.Environment, []byte(variable))
	}
	return x
}

// stateOfDevice adds what the driver knows, by the guest's handles.
func (s *Saving) stateOfDevice(x *saved.State) {
	contexts, modules := s.named(object.Context), s.named(object.Module)
	libraries, events := s.named(object.Library), s.named(object.Event)
	for _, a := range s.Driver.Allocated() {
		x.Allocations = append(x.Allocations,
			saved.Allocation{Address: a.Address, Bytes: a.Bytes,
				Context: contexts[uint64(a.Context)]})
	}
	for _, c := range s.Driver.Codes() {
		x.Codes = append(x.Codes, saved.Code{
			Address: c.Address, Context: contexts[uint64(c.Context)],
			Module: modules[uint64(c.Module)], Library: libraries[uint64(c.Library)],
		})
	}
	var list []gpubackend.Event
	for native, h := range events {
		if !s.Sharing.Opened(h) { // it has no time
			list = append(list, gpubackend.Event(native))
		}
	}
	for _, t := range s.Driver.EventTimes(list) {
		x.Events = append(x.Events, saved.EventTime{Event: events[uint64(t.Event)], Ago: t.Ago,
			Context: contexts[uint64(t.Context)]})
	}
}

// arrays are where arrays have their memory.
func (s *Saving) arrays() (list []saved.Array) {
	arrays, mipmapped := s.named(object.Array), s.named(object.MipmappedArray)
	for _, a := range s.Driver.ArrayPlaces() {
		h := arrays[uint64(a.Array)]
		if a.Array == 0 {
			h = mipmapped[uint64(a.Mipmapped)]
		}
		list = append(list, saved.Array{Address: a.Address, Array: h})
	}
	return list
}

// named are the guest's handles of objects, by the device's own.
func (s *Saving) named(kind object.Kind) map[uint64]uint64 {
	names := map[uint64]uint64{}
	for h, native := range s.Objects.All(kind) {
		names[native] = h
	}
	return names
}
