// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// objects are textures or surfaces, with the contexts that they end with: the driver is only given
// those that it made.
type objects map[uint64]*context

// objectBytes is what one counts for of the host's memory.
const objectBytes = 4 << 10

func (d *Device) roomForObject() bool { return d.options.HostMemory.Room(objectBytes) }

// remember notes what the driver has just made.
func (d *Device) remember(set *objects, h uint64, r gpubackend.Result) (uint64, gpubackend.Result) {
	if r != gpubackend.Success {
		return 0, r
	}
	if *set == nil {
		*set = objects{}
	}
	if _, known := (*set)[h]; !known {
		d.options.HostMemory.Force(objectBytes)
	}
	(*set)[h] = d.home()
	return h, r
}

// forgetObject says whether there was one.
func (d *Device) forgetObject(set objects, h uint64) bool {
	if _, known := set[h]; !known {
		return false
	}
	delete(set, h)
	d.options.HostMemory.Give(objectBytes)
	return true
}

// forgetObjects forgets those of a context that is gone.
func (d *Device) forgetObjects(c *context) {
	for _, set := range []objects{d.textures, d.surfaces} {
		for h, owner := range set {
			if owner == c {
				d.forgetObject(set, h)
			}
		}
	}
}
