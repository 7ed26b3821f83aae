// SPDX-License-Identifier: Apache-2.0

package cuda

import "github.com/paracuda/paracuda/gpubackend"

// mayFill says whether a fill of rows, each so many elements wide, may write where it would.
func (d *Device) mayFill(dst, pitch, element, width, height uint64) gpubackend.Result {
	if width == 0 || height == 0 {
		return gpubackend.Success // the driver says what becomes of it
	}
	if width > addresses || element > 4 { // no element is larger, and the product must not wrap
		return gpubackend.InvalidValue
	}
	b := gpubackend.Box{Width: width * element, Height: height, Depth: 1}
	bytes, ok := boxExtent(&b, pitch, 0)
	if !ok {
		return gpubackend.InvalidValue
	}
	_, r := d.reach(dst, bytes, true)
	return r
}

// MemsetD8Async passes on what may be filled.
func (d *Device) MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, 0, 1, n, 1); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD8Async(dst, value, n, s)
}

// MemsetD16Async passes on what may be filled.
func (d *Device) MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, 0, 2, n, 1); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD16Async(dst, value, n, s)
}

// MemsetD32Async passes on what may be filled.
func (d *Device) MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, 0, 4, n, 1); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD32Async(dst, value, n, s)
}

// MemsetD2D8Async passes on what may be filled.
func (d *Device) MemsetD2D8Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, pitch, 1, width, height); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD2D8Async(dst, pitch, value, width, height, s)
}

// MemsetD2D16Async passes on what may be filled.
func (d *Device) MemsetD2D16Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, pitch, 2, width, height); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD2D16Async(dst, pitch, value, width, height, s)
}

// MemsetD2D32Async passes on what may be filled.
func (d *Device) MemsetD2D32Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	if r := d.mayFill(dst, pitch, 4, width, height); r != gpubackend.Success {
		return r
	}
	return d.calls.MemsetD2D32Async(dst, pitch, value, width, height, s)
}
