// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/graphs"
	"github.com/paracuda/paracuda/gpubackend/worker/saved"
)

// Join ends a Restore that waits for what other programs share with this one: they offer it by now.
// The error wraps offers.ErrNone if nobody does. It does nothing if nothing waits.
func (s *Saving) Join() error {
	if s.joins == nil {
		return nil
	}
	if err := s.joins(); err != nil {
		return err
	}
	s.joins = nil
	return nil
}

// join takes what others offer. After that there is all memory that textures and graphs may name.
func (s *Saving) join(objects *object.Restoring, x *saved.State) error {
	next := func(handle uint64) error { return objects.Next(handle) }
	if err := s.Sharing.Join(&x.Shared, next); err != nil {
		return err
	}
	if err := s.Memory.Join(&x.Virtual, next); err != nil {
		return err
	}
	if err := s.Pools.Join(&x.Pools); err != nil {
		return err
	}
	if err := s.Imports.Join(x.Imports); err != nil {
		return err
	}
	current := func(context uint64) gpubackend.Result { return s.Contexts.Set(context, false) }
	if err := s.Textures.Restore(x.Textures, current); err != nil {
		return err
	}
	err := s.Graphs.Restore(&x.Graphs,
		&graphs.Restoring{Buffers: s.Buffers, Next: next, Current: current})
	if err != nil {
		return err
	}
	if err := s.Driver.LayoutRestored(); err != nil {
		return err
	}
	return objects.Done()
}
