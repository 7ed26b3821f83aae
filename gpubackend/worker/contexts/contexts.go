// SPDX-License-Identifier: Apache-2.0

// Package contexts knows which of the guest's contexts is current in the driver, which is a
// device's primary one, and to which primary context a green one belongs.
//
// # Who owns what
//
// The worker's loop owns a Contexts. Nothing but it sets the driver's current context. Handles of
// contexts are in the object table; what is kept here of a green context goes when its handle has
// gone (Sweep).
//
// # Who may lie
//
// A handle is the guest's word: one that is no context is refused before the driver hears of it.
package contexts

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Driver is what Contexts uses of gpubackend.Driver.
type Driver interface {
	SetCurrent(c gpubackend.Context) gpubackend.Result
}

// Contexts are the contexts of one guest process.
type Contexts struct {
	driver  Driver
	objects *object.Table
	leaving func()

	current uint64            // guest's handle of the context that is current in the driver
	primary map[uint64]uint64 // device to the handle of its primary context
	homes   map[uint64]uint64 // green contexts to the primary one that each is part of
}

// New returns the contexts of a guest process, none of them current. leaving is called before
// another one becomes current.
func New(d Driver, objects *object.Table, leaving func()) *Contexts {
	return &Contexts{
		driver: d, objects: objects, leaving: leaving,
		primary: map[uint64]uint64{}, homes: map[uint64]uint64{},
	}
}

// Current is the handle of the current context, 0 for none.
func (c *Contexts) Current() uint64 { return c.current }

// Set makes a context current. None is InvalidContext unless it is optional.
func (c *Contexts) Set(handle uint64, optional bool) gpubackend.Result {
	if handle != c.current {
		return c.change(handle, optional)
	}
	if handle == 0 && !optional {
		return gpubackend.InvalidContext
	}
	return gpubackend.Success
}

func (c *Contexts) change(handle uint64, optional bool) gpubackend.Result {
	native, result := handles.Context(c.objects, handle)
	if result != gpubackend.Success && handle != 0 {
		return result
	}
	c.leaving()
	if result := c.driver.SetCurrent(native); result != gpubackend.Success {
		return result
	}
	c.current = handle
	if handle == 0 && !optional {
		return gpubackend.InvalidContext
	}
	return gpubackend.Success
}

// Ended says that a context has ended. The driver has made none current in its place.
func (c *Contexts) Ended(handle uint64) {
	if handle == c.current {
		c.current = 0
	}
}

// Retained remembers a device's primary context.
func (c *Contexts) Retained(device, handle uint64) { c.primary[device] = handle }

// Primary is the handle of a device's primary context.
func (c *Contexts) Primary(device uint64) (handle uint64, retained bool) {
	handle, retained = c.primary[device]
	return handle, retained
}

// AddGreen says that a context is a green context's, and belongs to a primary context.
func (c *Contexts) AddGreen(handle, home uint64) { c.homes[handle] = home }

// Greens is how many green contexts there are.
func (c *Contexts) Greens() int { return len(c.homes) }

// Green yields the contexts of all green contexts.
func (c *Contexts) Green(yield func(handle uint64) bool) {
	for handle := range c.homes {
		if !yield(handle) {
			return
		}
	}
}

// Home is the context that owns what is made in a context: of a green context, the device's primary
// one.
func (c *Contexts) Home(handle uint64) uint64 {
	if len(c.homes) > 0 {
		if home, ok := c.homes[handle]; ok {
			return home
		}
	}
	return handle
}

// HomeOfCurrent is the home of the current context.
func (c *Contexts) HomeOfCurrent() uint64 { return c.Home(c.current) }

// LeaveGreen makes sure that no green context that may be about to end is current.
func (c *Contexts) LeaveGreen() {
	if home := c.Home(c.current); home != c.current {
		c.Set(home, true)
	}
}

// Sweep forgets the green contexts whose handles are gone, and tells of each.
func (c *Contexts) Sweep(gone func(handle uint64)) {
	for handle := range c.homes {
		if _, ok := c.objects.Lookup(object.Context, handle); !ok {
			delete(c.homes, handle)
			gone(handle)
		}
	}
}
