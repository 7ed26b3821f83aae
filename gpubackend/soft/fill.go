// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
)

// fill queues a memset of height rows of width elements of the given size in bytes.
func (d *Device) fill(dst, pitch, value uint64, size int, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	if width == 0 || height == 0 {
		_, result := d.target(s)
		return result
	}
	element := uint64(size)
	if width > 1<<62/element || dst%element != 0 || height > 1 && pitch%element != 0 {
		return gpubackend.InvalidValue
	}
	row := width * element
	total, ok := extent(row, height, 1, pitch, 0)
	if !ok {
		return gpubackend.InvalidValue
	}
	return d.transfer(s, []span{{dst, total, true}}, func() {
		if height > 1 && pitch == row {
			row, height = total, 1
		}
		for y := range height {
			fillBytes(bytesAt(dst+y*pitch, row), value, size)
		}
	})
}

// fillBytes repeats the low size bytes of value in b, whose length is a multiple of size.
func fillBytes(b []byte, value uint64, size int) {
	var pattern [8]byte
	binary.LittleEndian.PutUint64(pattern[:], value)
	for done := copy(b, pattern[:size]); done < len(b); {
		done += copy(b[done:], b[:min(done, 32<<10)])
	}
}

// MemsetD8Async implements gpubackend.Driver.
func (d *Device) MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, 0, value, 1, n, 1, s)
}

// MemsetD16Async implements gpubackend.Driver.
func (d *Device) MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, 0, value, 2, n, 1, s)
}

// MemsetD32Async implements gpubackend.Driver.
func (d *Device) MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, 0, value, 4, n, 1, s)
}

// MemsetD2D8Async implements gpubackend.Driver.
func (d *Device) MemsetD2D8Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, pitch, value, 1, width, height, s)
}

// MemsetD2D16Async implements gpubackend.Driver.
func (d *Device) MemsetD2D16Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, pitch, value, 2, width, height, s)
}

// MemsetD2D32Async implements gpubackend.Driver.
func (d *Device) MemsetD2D32Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result {
	return d.fill(dst, pitch, value, 4, width, height, s)
}
