// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"
	"fmt"
)

// To the driver, a process that goes on from a file is a new one: what the driver chooses, it
// chooses anew. Memory of the window is where it was, as its addresses are chosen here. Streams,
// events, modules and functions get other handles, which only the worker sees. Code's variables are in
// the window, too, if Options.MovableCode says so. Programs with graphs, arrays, textures or
// variables elsewhere can't be saved.

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
	return d.Stays()
}

var errPlaced = errors.New("code has variables that were placed, which is off here (movable-code)")

// PlaceCode implements gpubackend.Driver.
func (d *Device) PlaceCode(address uint64) error {
	switch {
	case address == 0:
		return nil
	case !d.Movable():
		return errPlaced
	}
	return d.PlaceNext(address)
}

// LayoutRestored implements gpubackend.Driver. Pinned memory was registered before there was a
// context.
func (d *Device) LayoutRestored() error {
	if d.Pending() {
		return errors.New("pinned memory can't be registered with the driver again")
	}
	return d.memoryRoom.LayoutRestored()
}
