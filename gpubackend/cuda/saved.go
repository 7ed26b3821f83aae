// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"
	"fmt"
	"io"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/devmem"
)

// To the driver, a process that goes on from a file is a new one: what the driver chooses, it
// chooses anew. Memory of the window is where it was, as its addresses are chosen here. Streams,
// events, modules and functions get other handles, which only the worker sees. Code's variables are
// in the window, too, if Options.MovableCode says so, and programs know constants by addresses that
// are chosen here. Arrays are made anew, and given their content, as constants are. Graphs are made
// anew as package exec has them. Programs with variables elsewhere can't be saved. Nor can those
// whose graphs allocate or have conditions: the driver chooses the memory's addresses and the
// conditions' handles, which kernels have, and nobody can say beforehand what it will choose.

// AwaitsHost implements gpubackend.Driver.
func (d *Device) AwaitsHost() bool { return d.streamRoom.AwaitsHost(d.graphRoom.Held) }

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
	if d.InUse() {
		return "memory that a graph has allocated is in use"
	}
	if why := d.textureRoom.Unsavable(); why != "" {
		return why
	}
	return d.Stays()
}

// SaveLayout implements gpubackend.Driver.
func (d *Device) SaveLayout(to io.Writer) error {
	if err := d.memoryRoom.SaveLayout(to); err != nil {
		return err
	}
	if err := d.SaveArrays(to); err != nil {
		return err
	}
	return d.SaveConstants(to)
}

// RestoreLayout implements gpubackend.Driver.
func (d *Device) RestoreLayout(from io.Reader) error {
	if err := d.memoryRoom.RestoreLayout(from); err != nil {
		return err
	}
	if err := d.RestoreArrays(from); err != nil {
		return err
	}
	return d.RestoreConstants(from)
}

var errPlaced = errors.New("code has variables that were placed, which is off here (movable-code)")

// PlaceCode implements gpubackend.Driver.
func (d *Device) PlaceCode(address uint64) error {
	switch {
	case address == 0:
		return nil
	case address < devmem.Base:
		d.PlaceArray(address)
		return nil
	case !d.Movable():
		return errPlaced
	}
	return d.PlaceNext(address)
}

// StreamBeginCaptureToGraph begins a capture, which changes a graph.
func (d *Device) StreamBeginCaptureToGraph(
	s gpubackend.Stream, g gpubackend.Graph, nodes []gpubackend.GraphNode, edges []byte,
	mode uint64,
) gpubackend.Result {
	d.Changing(g)
	return d.streamRoom.StreamBeginCaptureToGraph(s, g, nodes, edges, mode)
}

// LayoutRestored implements gpubackend.Driver. Pinned memory was registered before there was a
// context.
func (d *Device) LayoutRestored() error {
	if d.Pending() {
		return errors.New("pinned memory can't be registered with the driver again")
	}
	if err := d.ArraysRestored(); err != nil {
		return err
	}
	if err := d.ConstantsRestored(); err != nil {
		return err
	}
	return d.memoryRoom.LayoutRestored()
}
