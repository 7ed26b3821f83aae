// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"
	"fmt"
)

// A process that goes on from a file is another one to the driver: what that chooses, it chooses
// anew. Memory of the window is where it was, as its addresses are chosen here; streams, events,
// modules and functions have other handles, which nobody but the worker sees. Graphs, arrays,
// textures and variables of code stay what they are: programs that have such can't be saved.

// Saves implements gpubackend.Driver.
func (d *Device) Saves() bool { return true }

// Unsavable implements gpubackend.Driver.
func (d *Device) Unsavable() string {
	switch n := d.Strange(); {
	case d.Elsewhere():
		return "device memory isn't at its usual addresses"
	case n != 0:
		return fmt.Sprintf("%d pieces of device memory are in use whose owner isn't known", n)
	}
	if modules, libraries := d.Placed(); modules+libraries > 0 {
		return "its code has managed variables"
	}
	return ""
}

var errPlaced = errors.New("code has variables, or an array memory, whose place can't be chosen")

// PlaceCode implements gpubackend.Driver: there is nothing that it could be told of.
func (d *Device) PlaceCode(address uint64) error {
	if address != 0 {
		return errPlaced
	}
	return nil
}

// LayoutRestored implements gpubackend.Driver. Pinned memory was there before there was a context.
func (d *Device) LayoutRestored() error {
	if d.Lends() {
		return errors.New("the driver can't be told of pinned memory")
	}
	return d.memoryRoom.LayoutRestored()
}
