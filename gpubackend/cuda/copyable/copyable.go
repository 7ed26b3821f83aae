// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Side is where one side of a copy is.
type Side uint8

const (
	Host   Side = iota
	Device      // the driver knows it
	Graph       // the driver may not know it yet
)

// Place is where one side of a copy is, by the address that the driver knows.
type Place struct {
	Address uint64
	Side
}

// MemoryType is the memory type of a side, as the driver is told.
func (s Side) MemoryType() uint32 {
	if s == Host {
		return cudaabi.MemoryTypeUnified // the address says where memory is
	}
	return cudaabi.MemoryTypeDevice
}

// Calls are the functions of the driver that are called here.
type Calls interface {
	PointerAttribute(attribute, addr uint64) (uint64, gpubackend.Result)
}

// Current gives the context whose addresses are asked for.
type Current interface{ Current() *contexts.Context }

// Ranges are the addresses that copies and fills may name.
type Ranges struct {
	// Host is memory of this process: pages of the guest's that are mapped here, and this program's
	// own.
	Host Spans
	// OfGPUs is variables, and memory of graphs, which the driver doesn't know before they run.
	OfGPUs Spans
	// Told are addresses of ours for memory that the driver has elsewhere.
	Told Told

	calls                Calls
	current              Current
	window, windowLength uint64 // device memory
	each                 uint64 // the part of the window that each GPU has
}

// New returns ranges without memory.
func New(calls Calls, current Current) *Ranges { return &Ranges{calls: calls, current: current} }

// SetWindow says where the device memory of so many GPUs is, one after the other.
func (g *Ranges) SetWindow(base, each uint64, gpus int) {
	g.window, g.windowLength, g.each = base, uint64(gpus)*each, each
}

// Apart says on which GPUs two addresses of the window are, if those differ.
func (g *Ranges) Apart(a, b uint64) (of [2]int, apart bool) {
	first, one := g.Owner(a)
	second, other := g.Owner(b)
	if !one || !other || first == second {
		return of, false
	}
	return [2]int{first, second}, true
}

// Owner says on which GPU an address of the window is.
func (g *Ranges) Owner(addr uint64) (gpu int, is bool) {
	if !g.InWindow(addr) {
		return 0, false
	}
	return int((addr - g.window) / g.each), true
}

// InWindow says whether an address is in the window.
func (g *Ranges) InWindow(addr uint64) bool { return addr-g.window < g.windowLength }

// At says where a range is: InvalidValue if it isn't the guest's. Where device memory ends is
// checked by the driver, whose device copies it.
func (g *Ranges) At(addr, bytes uint64, write bool) (Place, gpubackend.Result) {
	last := addr + max(bytes, 1) - 1
	switch {
	case last < addr:
		return Place{}, gpubackend.InvalidValue
	case g.InWindow(addr):
		if !g.InWindow(last) {
			return Place{}, gpubackend.InvalidValue
		}
		return Place{addr, Device}, gpubackend.Success
	case g.Host.Cover(addr, bytes, write):
		return Place{addr, Host}, gpubackend.Success
	case g.Told.has(addr):
		return g.Told.find(addr, bytes)
	}
	return g.ask(addr)
}

// ask asks the driver what is at an address outside the window.
func (g *Ranges) ask(addr uint64) (Place, gpubackend.Result) {
	c := g.current.Current()
	if c == nil {
		return Place{}, gpubackend.InvalidContext
	}
	if dead := c.Dead(); dead != gpubackend.Success {
		return Place{}, dead
	}
	kind, r := g.calls.PointerAttribute(cudaabi.PointerAttributeMemoryType, addr)
	switch {
	case r == gpubackend.Success && uint32(kind) == cudaabi.MemoryTypeDevice:
		return Place{addr, Device}, r
	case r == gpubackend.Success:
		return Place{}, gpubackend.InvalidValue
	case r == gpubackend.InvalidValue && g.OfGPUs.Cover(addr, 1, true):
		return Place{addr, Graph}, gpubackend.Success
	}
	return Place{}, r
}

// Copy is At for both sides of a copy.
func (g *Ranges) Copy(dst, src, bytes uint64) (to, from Place, r gpubackend.Result) {
	if to, r = g.At(dst, bytes, true); r == gpubackend.Success {
		from, r = g.At(src, bytes, false)
	}
	return to, from, r
}

// Box is At for both sides of a box, with the pitches and slices that the driver is given. It puts
// the addresses that the driver knows into the box.
func (g *Ranges) Box(b *gpubackend.Box) (to, from Side, r gpubackend.Result) {
	dst, ok := extent(b, b.DstPitch, b.DstSlice)
	src, also := extent(b, b.SrcPitch, b.SrcSlice)
	if !ok || !also {
		return 0, 0, gpubackend.InvalidValue
	}
	there, r := g.At(b.Dst, dst, true)
	if r != gpubackend.Success {
		return 0, 0, r
	}
	here, r := g.At(b.Src, src, false)
	b.Dst, b.Src = there.Address, here.Address
	return there.Side, here.Side, r
}

// addresses is how many addresses there are.
const addresses = gpubackend.Addresses

// nullPage is where nothing ever lies, neither on a GPU nor on the host.
const nullPage = 4096

// Fill says whether a fill of rows, each so many elements wide, may write where it would, and at
// which address that is for the driver. A fill of nothing, or at address 0, is left to the driver,
// which accepts the latter in a capture.
func (g *Ranges) Fill(
	dst, pitch, element, width, height uint64,
) (at uint64, r gpubackend.Result) {
	if width == 0 || height == 0 {
		return dst, gpubackend.Success
	}
	if width > addresses || element > 4 { // no element is larger, and the product must not wrap
		return 0, gpubackend.InvalidValue
	}
	b := gpubackend.Box{Width: width * element, Height: height, Depth: 1}
	bytes, ok := extent(&b, pitch, 0)
	if !ok {
		return 0, gpubackend.InvalidValue
	}
	if dst == 0 && bytes <= nullPage {
		return 0, gpubackend.Success
	}
	to, r := g.At(dst, bytes, true)
	return to.Address, r
}

// extent is how many bytes lie between the first and the last byte of one side of a box; false if
// that overflows.
func extent(b *gpubackend.Box, pitch, slice uint64) (bytes uint64, ok bool) {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return 0, true
	}
	if b.Width > addresses || b.Height > addresses || b.Depth > addresses {
		return 0, false
	}
	rows, planes := b.Height-1, b.Depth-1
	if rows > 0 && pitch > addresses/rows || planes > 0 && slice > addresses/planes {
		return 0, false
	}
	return rows*pitch + planes*slice + b.Width, true
}
