// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	stdmaps "maps"
	"slices"
	"strings"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/fixed"
	"github.com/paracuda/paracuda/gpubackend/journal"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/again"
)

// ErrFailed is the reason why a program can't be saved that has lost its GPU, or one of several
// contexts, until it is told: it might end that context and go on with another.
var ErrFailed = errors.New("its context has failed")

// Why a program can't be saved now.
var (
	errHost    = errors.New("a host function is to run")
	errUsed    = errors.New("busy: its work goes on")
	errJoins   = errors.New("it waits for what other programs share with it")
	errNothing = errors.New("it hasn't begun to use the GPU")
)

// Begun says whether the program has begun to use the GPU.
func (s *Saving) Begun() bool { return s.Hello.IsOpen() }

// Unsavable says why the program can't be saved now; nil: it can.
func (s *Saving) Unsavable() error {
	failed := s.failed() != gpubackend.Success
	if err := s.counted(failed); err != nil {
		return err
	}
	if !s.Hello.IsOpen() {
		return errNothing
	}
	if err := s.underWay(failed); err != nil {
		return err
	}
	if failed {
		return nil
	}
	return s.Found()
}

// Counted says what is known to be in the way, without a look at anything.
func (s *Saving) Counted() error { return s.counted(s.Told() != gpubackend.Success) }

// counted is Counted of a program that has failed or not.
func (s *Saving) counted(failed bool) error {
	if !s.Driver.Saves() {
		return errors.New(s.Driver.Unsavable())
	}
	if err := s.History.Refused(); err != nil && !failed {
		return err
	}
	if s.joins != nil {
		return errJoins
	}
	counts := s.ofFailed()
	if !failed {
		counts = s.Fixed()
	}
	if c := counts.Map(); c != nil {
		return fmt.Errorf("what it has can't be made again: %s",
			strings.Join(slices.Sorted(stdmaps.Keys(c)), ", "))
	}
	return nil
}

// Found looks for what else is in the way, apart from what is under way. While a graph is being
// captured it doesn't look at graphs.
func (s *Saving) Found() error {
	if !s.Hello.IsOpen() || s.Told() != gpubackend.Success {
		return nil
	}
	if why := s.Driver.Unsavable(); why != "" {
		return errors.New(why)
	}
	err := errors.Join(s.Sharing.Lacks(), s.Memory.Lacks(), s.Pools.Lacks(), s.Imports.Lacks())
	if err != nil {
		return err
	}
	if s.Graphs.Captures() == 0 {
		if _, err := s.Graphs.Save(); err != nil {
			return err
		}
	}
	if _, err := s.Textures.Save(); err != nil {
		return err
	}
	list, err := s.executed()
	if err != nil {
		return err
	}
	return s.code(list)
}

// code says which code can't be made again.
func (s *Saving) code(list []journal.Executed) error {
	for i := range list {
		image, ok := again.Image(&list[i])
		if !ok {
			continue
		}
		mem := s.Host.Open()
		why := s.Driver.UnsavableCode(image, mem)
		mem.Close()
		if why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// underWay says what is still under way, or has failed in a program that as a whole hasn't.
func (s *Saving) underWay(failed bool) error {
	if _, waits := s.HostFuncs.Told(); waits {
		return errHost // calls may wait for it
	}
	if err := s.Waits(); err != nil {
		return err
	}
	if s.Queue.Used(s.HostMemory.Uses) {
		return errUsed
	}
	for context := range s.Objects.All(object.Context) {
		switch r := s.query(context); {
		case r == gpubackend.NotReady:
			return errUsed
		case r != gpubackend.Success && !failed:
			return ErrFailed
		}
	}
	return nil
}

// executed are the commands that make those objects again that no room makes.
func (s *Saving) executed() ([]journal.Executed, error) {
	return s.History.Executed(
		s.Objects.Count(object.Pool) + s.Memory.Handles() + s.Graphs.Saves() + s.Sharing.Handles())
}

// fixedObjects are the kinds of objects that aren't saved.
var fixedObjects = [...]struct {
	kind   fixed.Kind
	object object.Kind
}{
	{fixed.References, object.TextureReference}, {fixed.References, object.SurfaceReference},
	{fixed.GreenContexts, object.GreenContext}, {fixed.GreenContexts, object.Resource},
	{fixed.GreenContexts, object.ResourceDesc}, {fixed.Linkers, object.Link},
}

// Fixed counts what keeps the program from being moved.
func (s *Saving) Fixed() fixed.Counts {
	c := s.ofOthers()
	for _, x := range fixedObjects {
		c[x.kind] += uint64(s.Objects.Count(x.object))
	}
	if n := s.Driver.FixedGraphs(); n >= 0 {
		c[fixed.Graphs] = uint64(n)
	} else {
		c[fixed.Graphs] = uint64(s.Objects.Count(object.Graph))
		c[fixed.GraphExecs] = uint64(s.Objects.Count(object.GraphExec))
	}
	if !s.Driver.SavesTextures() {
		c[fixed.Arrays] = uint64(s.Objects.Count(object.Array) +
			s.Objects.Count(object.MipmappedArray))
	}
	c[fixed.Textures] = uint64(s.Textures.Fixed())
	if s.History == nil || s.History.Refused() != nil {
		c[fixed.Commands] = 1
	}
	return c
}

// ofFailed counts what of that others may use, of a program that has failed. It has nothing more to
// offer when it goes on.
func (s *Saving) ofFailed() fixed.Counts {
	c := s.ofOthers()
	memory, events := s.Sharing.Offered()
	exported, _ := s.Memory.Shared()
	c[fixed.SharedMemory] += uint64(memory + exported + s.Pools.Offered())
	c[fixed.SharedEvents] = uint64(events)
	return c
}

// ofOthers counts what of that others may use, even when the program has failed.
func (s *Saving) ofOthers() (c fixed.Counts) {
	c[fixed.SharedMemory] = uint64(s.Memory.Lone())
	c[fixed.ShownMemory] = uint64(s.HostMemory.Shown())
	return c
}
