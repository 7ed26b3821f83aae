// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend/budget"

// AwaitsHost implements gpubackend.Driver.
func (d *Device) AwaitsHost() bool { return d.scheduler.AwaitsHost() }

// Saves implements gpubackend.Driver.
func (d *Device) Saves() bool { return true }

// SavesTextures implements gpubackend.Driver.
func (d *Device) SavesTextures() bool { return true }

// UnsavableCode implements gpubackend.Driver. PlaceCode says where variables are.
func (d *Device) UnsavableCode([]byte, *budget.Account) string { return "" }

// Unsavable implements gpubackend.Driver. Only the heap knows what kernels have allocated with
// malloc.
func (d *Device) Unsavable() string {
	if d.Heaps() > 0 {
		return "its kernels allocate memory with malloc"
	}
	if n := d.Strange(d.placed() + len(d.ArrayPlaces()) + d.Graphs.Held().Allocations); n != 0 {
		return "device memory is in use whose owner isn't known"
	}
	if d.Dangling() {
		return "memory of a texture or surface is gone"
	}
	return ""
}

// placed is how many pieces of code have memory.
func (d *Device) placed() (n int) {
	for _, c := range d.Codes() {
		if c.Address != 0 {
			n++
		}
	}
	return n
}

// PlaceCode implements gpubackend.Driver.
func (d *Device) PlaceCode(address uint64) error {
	if address == 0 {
		return nil
	}
	return d.PlaceNext(address)
}
