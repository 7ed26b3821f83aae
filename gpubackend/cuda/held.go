// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
)

// The driver keeps a copy of each image that it loads, as long as the module or library lives,
// which counts as the guest process's (package budget). What else the driver takes isn't known.

// held is images, by the handle of module or library.
type held map[uint64]heldImage

type heldImage struct {
	memory *budget.Account
	owner  *context // that it ends with; nil for a library
}

// loaded runs load, for which the image is copied once more, and keeps what the image counts for if
// that makes something.
func (d *Device) loaded(
	image []byte, owner *context, load func() (uint64, gpubackend.Result),
) (uint64, gpubackend.Result) {
	memory := d.options.HostMemory.Open()
	bytes := uint64(len(image))
	if memory.Take(2*bytes) != nil {
		memory.Close()
		return 0, gpubackend.OutOfMemory
	}
	h, r := load()
	if r != gpubackend.Success {
		memory.Close()
		return 0, r
	}
	memory.Give(bytes)
	if d.held == nil {
		d.held = held{}
	}
	d.held[h] = heldImage{memory, owner}
	return h, r
}

// drop gives back what an image counts for.
func (d *Device) drop(h uint64) {
	if x, ok := d.held[h]; ok {
		x.memory.Close()
		delete(d.held, h)
	}
}

// dropContext does so for those of a context that is gone.
func (d *Device) dropContext(c *context) {
	for h, x := range d.held {
		if x.owner == c {
			d.drop(h)
		}
	}
}

// home is what owns what is made in the current context; nil without one.
func (d *Device) home() *context {
	if d.state == nil {
		return nil
	}
	return d.state.home()
}
