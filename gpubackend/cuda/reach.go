// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"slices"
	"sort"

	"github.com/paracuda/paracuda/gpubackend"
)

// A guest names what is copied and filled by address. The driver takes an address that it doesn't know for ordinary
// memory of this process, and copies it by the processor: so it is given none but those that are the guest's.

// span is a range of addresses.
type span struct {
	base, bytes uint64
	writable    bool
}

func (s span) end() uint64 { return s.base + s.bytes }

// spans is sorted; none overlaps another.
type spans []span

// first is the position of the first span that ends behind addr.
func (s spans) first(addr uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].end() > addr })
}

// put enters a span in place of those that it overlaps.
func (s *spans) put(x span) {
	from := s.first(x.base)
	to := from
	for to < len(*s) && (*s)[to].base < x.end() {
		to++
	}
	*s = slices.Replace(*s, from, to, x)
}

// remove removes the span that begins at base.
func (s *spans) remove(base uint64) {
	if i := s.first(base); i < len(*s) && (*s)[i].base == base {
		*s = slices.Delete(*s, i, i+1)
	}
}

// cover says whether all of a range lies in spans, and may be written if it is to be.
func (s spans) cover(addr, bytes uint64, write bool) bool {
	for i := s.first(addr); i < len(s) && s[i].base <= addr && (s[i].writable || !write); i++ {
		n := s[i].end() - addr
		if n >= bytes {
			return true
		}
		addr, bytes = addr+n, bytes-n
	}
	return false
}

// ranges is what copies and fills may name beside the window.
type ranges struct {
	host   spans // memory of this process: the guest's pages that it has shown, and this package's own
	device spans // of GPUs: variables, and what graphs allocate, of which the driver says nothing before they run
}

// CUmemorytype, and the attribute of a pointer that says which.
const (
	memoryDevice      = 2
	memoryUnified     = 4 // the address says where memory is
	pointerMemoryType = 2
)

// side is where one side of a copy is.
type side uint8

const (
	sideHost   side = iota
	sideDevice      // the driver knows it
	sideGraph       // the driver may not know it yet
)

// memoryType is what the driver is told of a side.
func (s side) memoryType() uint32 {
	if s == sideHost {
		return memoryUnified
	}
	return memoryDevice
}

// inWindow says whether an address is one that device memory is allocated at.
func (d *Device) inWindow(addr uint64) bool {
	return len(d.gpus) > 0 && addr-d.gpus[0].base < uint64(len(d.gpus))*windowBytes
}

// reach says where a range is: InvalidValue if it isn't the guest's. How far device memory goes is the driver's to check,
// which has the device copy it.
func (d *Device) reach(addr, bytes uint64, write bool) (side, gpubackend.Result) {
	last := addr + max(bytes, 1) - 1
	switch {
	case last < addr:
		return 0, gpubackend.InvalidValue
	case d.inWindow(addr):
		if !d.inWindow(last) {
			return 0, gpubackend.InvalidValue
		}
		return sideDevice, gpubackend.Success
	case d.ranges.host.cover(addr, bytes, write):
		return sideHost, gpubackend.Success
	}
	return d.reachOther(addr)
}

// reachOther asks the driver what is at an address outside the window.
func (d *Device) reachOther(addr uint64) (side, gpubackend.Result) {
	if d.state == nil {
		return 0, gpubackend.InvalidContext
	}
	if dead := d.state.home().dead; dead != gpubackend.Success {
		return 0, dead
	}
	kind, r := d.PointerAttribute(pointerMemoryType, addr)
	switch {
	case r == gpubackend.Success && uint32(kind) == memoryDevice:
		return sideDevice, r
	case r == gpubackend.Success:
		return 0, gpubackend.InvalidValue
	case r == gpubackend.InvalidValue && d.ranges.device.cover(addr, 1, true):
		return sideGraph, gpubackend.Success
	}
	return 0, r
}

// reachCopy is reach for both sides of a copy.
func (d *Device) reachCopy(dst, src, bytes uint64) (to, from side, r gpubackend.Result) {
	if to, r = d.reach(dst, bytes, true); r == gpubackend.Success {
		from, r = d.reach(src, bytes, false)
	}
	return to, from, r
}

// reachBox is reach for both sides of a box, with the pitches and slices that the driver is given.
func (d *Device) reachBox(b *gpubackend.Box) (to, from side, r gpubackend.Result) {
	dst, ok := boxExtent(b, b.DstPitch, b.DstSlice)
	src, also := boxExtent(b, b.SrcPitch, b.SrcSlice)
	if !ok || !also {
		return 0, 0, gpubackend.InvalidValue
	}
	if to, r = d.reach(b.Dst, dst, true); r == gpubackend.Success {
		from, r = d.reach(b.Src, src, false)
	}
	return to, from, r
}

// addresses is how many there are, and more than any two are apart.
const addresses = 1 << 47

// boxExtent is how many bytes lie between the first and the last byte of one side of a box; false where that is no number.
func boxExtent(b *gpubackend.Box, pitch, slice uint64) (bytes uint64, ok bool) {
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
