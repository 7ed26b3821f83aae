// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// Restore makes the worker, which has done nothing yet, into what was written to a record. The
// guest's memory is neither read nor changed. What other programs share with it is made by Join,
// when these are restored, too. ahead has the device memory that was copied before;
// nil: none was. filed says that the record is in a file, behind which the next one may come.
func (s *Saving) Restore(from io.Reader, ahead Image, filed bool) error {
	if !s.Driver.Saves() {
		return errors.New(s.Driver.Unsavable())
	}
	r, err := record.NewReader(from)
	if err != nil {
		return err
	}
	b, err := savedvm.ReadAll(r, savedvm.StateName, savedvm.MaxState)
	if err != nil {
		return err
	}
	x, err := saved.Decode(b)
	if err != nil {
		return err
	}
	if err := s.Queue.Restore(&x.Queue); err != nil {
		return err
	}
	s.HostFuncs.GoOn(x.HostFuncs)
	if err := s.reopen(x); err != nil {
		return err
	}
	if err := s.restoreDevice(r, x, ahead); err != nil {
		return err
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%w: it goes on after its end", saved.ErrRecord), err)
	}
	if filed {
		s.Filed.Note(x.Pieces)
	}
	return nil
}

// restoreDevice makes what the program has on the GPU.
func (s *Saving) restoreDevice(r *record.Reader, x *saved.State, ahead Image) error {
	if x.Failed != gpubackend.Success {
		return s.restoreFailed(r, x)
	}
	objects, err := s.remake(r, x)
	if err != nil {
		return err
	}
	s.joins = func() error { return s.join(objects, x) }
	if !x.Shared.Takes() && !x.Virtual.Takes() && !x.Pools.Takes() && len(x.Imports) == 0 {
		if err := s.Join(); err != nil {
			return err
		}
	}
	return s.reload(r, x, ahead)
}

// reopen opens the device, which must be the same as before.
func (s *Saving) reopen(x *saved.State) error {
	variables := make([]string, len(x.Environment))
	for i, variable := range x.Environment {
		variables[i] = string(variable)
	}
	if result := s.Hello.Reopen(variables); result != gpubackend.Success {
		return fmt.Errorf("open the device: %w", result.Err())
	}
	if !s.Hello.Suits(x.Inventory) {
		return fmt.Errorf("%w: these aren't the GPUs that the program was told of", saved.ErrRecord)
	}
	return s.HostMemory.Restore(&x.Pinned)
}

// remake makes the objects again that depend on no other program, and the layout of device memory.
// It offers what other programs may have of it.
func (s *Saving) remake(r *record.Reader, x *saved.State) (*object.Restoring, error) {
	table, err := savedvm.ReadAll(r, savedvm.ObjectsName, savedvm.MaxObjects)
	if err != nil {
		return nil, err
	}
	executed, err := readJournal(r)
	if err != nil {
		return nil, err
	}
	if _, err := savedvm.Next(r, savedvm.LayoutName, savedvm.MaxLayout); err != nil {
		return nil, err
	}
	if err := s.Driver.RestoreLayout(r); err != nil {
		return nil, err
	}
	objects, err := object.Restore(s.Objects, bytes.NewReader(table))
	if err != nil {
		return nil, err
	}
	if err := s.replay(executed, objects, x); err != nil {
		return nil, err
	}
	if err := s.retake(x); err != nil {
		return nil, err
	}
	next := func(handle uint64) error { return objects.Next(handle) }
	if err := s.Memory.Restore(&x.Virtual, next); err != nil {
		return nil, err
	}
	if err := s.Pools.Restore(&x.Pools, next); err != nil {
		return nil, err
	}
	return objects, s.Sharing.Restore(&x.Shared)
}

// replay executes the commands that made objects.
func (s *Saving) replay(
	executed []journal.Executed, objects *object.Restoring, x *saved.State,
) error {
	codes, places := codesOf(x.Codes), placesOf(x)
	return s.History.Replay(executed, s.Run, func(made []uint64) error {
		if err := objects.Next(made...); err != nil {
			return err
		}
		return s.place(places, made)
	}, func(made []uint64) error { return s.loadCode(codes, made) })
}

func readJournal(r *record.Reader) (list []journal.Executed, err error) {
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

// codesOf are the places of libraries' code in contexts, by the handles on which they depend.
func codesOf(list []saved.Code) map[uint64][]saved.Code {
	by := map[uint64][]saved.Code{}
	for _, x := range list {
		if x.Library != 0 && x.Context != 0 {
			by[x.Library] = append(by[x.Library], x)
			by[x.Context] = append(by[x.Context], x)
		}
	}
	return by
}

// placesOf are where modules have their variables, libraries those that are the same in all
// contexts, and arrays their memory, by handle.
func placesOf(x *saved.State) map[uint64]uint64 {
	places := map[uint64]uint64{}
	for _, c := range x.Codes {
		switch {
		case c.Library == 0:
			places[c.Module] = c.Address
		case c.Context == 0:
			places[c.Library] = c.Address
		}
	}
	for _, a := range x.Arrays {
		places[a.Array] = a.Address
	}
	return places
}

// place says where the object that is made next has its memory.
func (s *Saving) place(places map[uint64]uint64, made []uint64) error {
	for _, h := range made {
		if address, ok := places[h]; ok {
			return s.Driver.PlaceCode(address)
		}
	}
	return nil
}

// loadCode loads a library's code in a context as soon as both are made: the program may have
// launched its kernels before it did anything else with them.
func (s *Saving) loadCode(codes map[uint64][]saved.Code, made []uint64) error {
	for _, h := range made {
		for _, x := range codes[h] {
			l, ok := s.Objects.Lookup(object.Library, x.Library)
			if !ok || !s.Objects.Has(x.Context) {
				continue
			}
			if result := s.Contexts.Set(x.Context, false); result != gpubackend.Success {
				return fmt.Errorf("make a library's code: %w", result.Err())
			}
			if err := s.Driver.PlaceCode(x.Address); err != nil {
				return err
			}
			result := s.Driver.LoadCode(gpubackend.Library(l))
			if result != gpubackend.Success {
				return fmt.Errorf("make a library's code: %w", result.Err())
			}
		}
	}
	return nil
}
