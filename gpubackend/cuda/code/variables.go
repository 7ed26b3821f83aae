// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/managed"
)

// Where memory is limited, the variables of modules and libraries count from the time of loading,
// by the sizes in the image: the driver may take the memory later. A library's variables count once
// for each context, since each context has its own.

// footprint is what the variables of an image count for. An image that can't be read isn't loaded.
func (x *Code) footprint(image []byte) (uint64, gpubackend.Result) {
	if x.memory.Limit() == 0 {
		return 0, gpubackend.Success
	}
	memory := x.options.Host.Open()
	defer memory.Close()
	bytes, err := managed.Footprint(image, x.architecture(), memory)
	if memory.Refused() {
		return 0, gpubackend.OutOfMemory
	}
	if err != nil {
		x.options.Log.WithError(err).Warn(
			"an image isn't loaded: device memory is limited, " +
				"and how much its variables take can't be read")
		return 0, gpubackend.NotSupported
	}
	return bytes, gpubackend.Success
}

// chargedModule loads a module by load, if there is memory for its variables.
func (x *Code) chargedModule(
	image []byte, load func() (gpubackend.Module, gpubackend.Result),
) (gpubackend.Module, gpubackend.Result) {
	bytes, r := x.footprint(image)
	if r != gpubackend.Success {
		return 0, r
	}
	if bytes == 0 {
		return load()
	}
	m, r := x.charges.Make(bytes, true, func() (uint64, gpubackend.Result) {
		m, r := load()
		return uint64(m), r
	})
	return gpubackend.Module(m), r
}

// chargedLibrary does so for a library, in all contexts. If there is none, there must be room for
// one.
func (x *Code) chargedLibrary(
	image []byte, load func() (gpubackend.Library, gpubackend.Result),
) (gpubackend.Library, gpubackend.Result) {
	bytes, r := x.footprint(image)
	if r != gpubackend.Success {
		return 0, r
	}
	if bytes == 0 {
		return load()
	}
	if bytes > x.memory.Limit() {
		return 0, gpubackend.OutOfMemory
	}
	var done []*contexts.Context
	for c := range x.contexts.All() {
		if c.Base != nil || !c.Exists() {
			continue
		}
		if !x.chargeIn(c, bytes) {
			x.unchargeIn(done, bytes)
			return 0, gpubackend.OutOfMemory
		}
		done = append(done, c)
	}
	l, r := load()
	if r != gpubackend.Success {
		x.unchargeIn(done, bytes)
		return 0, r
	}
	x.libraries[l] = bytes
	return l, r
}

func (x *Code) chargeIn(c *contexts.Context, bytes uint64) bool {
	if !x.memory.Charge(c.GPU, bytes) {
		return false
	}
	x.counted[c] += bytes
	return true
}

func (x *Code) unchargeIn(cs []*contexts.Context, bytes uint64) {
	for _, c := range cs {
		x.memory.Uncharge(c.GPU, bytes)
		x.counted[c] -= bytes
	}
}

// forgetLibrary takes the variables of a library that is gone out of the count.
func (x *Code) forgetLibrary(l gpubackend.Library) {
	bytes := x.libraries[l]
	delete(x.libraries, l)
	for c := range x.contexts.All() {
		if bytes != 0 && c.Base == nil && c.Exists() {
			x.unchargeIn([]*contexts.Context{c}, bytes)
		}
	}
}

// ofLibraries is what all libraries count for in a context.
func (x *Code) ofLibraries() (sum uint64) {
	for _, bytes := range x.libraries {
		sum += bytes
	}
	return sum
}

// Room says whether there is room for the variables of all libraries in another context, which
// would have its own.
func (x *Code) Room(gpu int) bool {
	bytes := x.ofLibraries()
	if x.shared() {
		x.options.Log.Error("another context isn't made: it would share a library's variables " +
			"(movable-code=on)")
		return false
	}
	return bytes == 0 || x.memory.HasRoom(gpu, bytes) // counted by Began
}

// Began counts them for a context that has begun.
func (x *Code) Began(c *contexts.Context) {
	bytes := x.ofLibraries()
	x.memory.Recharge(c.GPU, x.counted[c], bytes)
	x.counted[c] = bytes
}

// Ended forgets the code of a context that has ended, and what it counts for.
func (x *Code) Ended(c *contexts.Context) {
	x.charges.Ended(c)
	x.dropContext(c)
	x.unchargeIn([]*contexts.Context{c}, x.counted[c])
	delete(x.counted, c)
	x.forgetPlaced(nil, c)
	x.endAreas(c)
}
