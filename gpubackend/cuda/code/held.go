// SPDX-License-Identifier: Apache-2.0

package code

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
)

// The driver keeps a copy of each image for as long as the module or library lives. It counts as
// memory of the guest process (package budget). What else the driver takes isn't known.

// held is images, by the handle of module or library.
type held map[uint64]heldImage

type heldImage struct {
	memory *budget.Account
	owner  *contexts.Context // that it ends with; nil for a library
}

// loaded runs load, which copies the image once more. If load succeeds, what the image counts for
// is kept.
func loaded[H ~uint64](
	x *Code, image []byte, owner *contexts.Context, load func() (H, gpubackend.Result),
) (H, gpubackend.Result) {
	memory := x.options.Host.Open()
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
	x.held[uint64(h)] = heldImage{memory, owner}
	return h, r
}

// drop gives back what an image counts for.
func (x *Code) drop(h uint64) {
	if image, ok := x.held[h]; ok {
		image.memory.Close()
		delete(x.held, h)
	}
}

// dropContext does so for the images of a context that is gone.
func (x *Code) dropContext(c *contexts.Context) {
	for h, image := range x.held {
		if image.owner == c {
			x.drop(h)
		}
	}
}
