// SPDX-License-Identifier: Apache-2.0

package copies

import "github.com/paracuda/paracuda/gpubackend"

// The driver's functions that fill a row, and a rectangle.
type (
	fillRow func(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result
	fillBox func(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result
)

// row queues a fill of n elements of so many bytes, if the guest may write there.
func (x *Copies) row(
	fill fillRow, element, dst, value, n uint64, s gpubackend.Stream,
) gpubackend.Result {
	at, r := x.ranges.Fill(dst, 0, element, n, 1)
	if r != gpubackend.Success {
		return r
	}
	return fill(at, value, n, s)
}

// box is row for a rectangle.
func (x *Copies) box(
	fill fillBox, element, dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	at, r := x.ranges.Fill(dst, pitch, element, width, height)
	if r != gpubackend.Success {
		return r
	}
	return fill(at, pitch, value, width, height, s)
}

// MemsetD8Async queues a fill of what may be filled.
func (x *Copies) MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return x.row(x.calls.MemsetD8Async, 1, dst, value, n, s)
}

// MemsetD16Async queues a fill of what may be filled.
func (x *Copies) MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return x.row(x.calls.MemsetD16Async, 2, dst, value, n, s)
}

// MemsetD32Async queues a fill of what may be filled.
func (x *Copies) MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	return x.row(x.calls.MemsetD32Async, 4, dst, value, n, s)
}

// MemsetD2D8Async queues a fill of what may be filled.
func (x *Copies) MemsetD2D8Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return x.box(x.calls.MemsetD2D8Async, 1, dst, pitch, value, width, height, s)
}

// MemsetD2D16Async queues a fill of what may be filled.
func (x *Copies) MemsetD2D16Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return x.box(x.calls.MemsetD2D16Async, 2, dst, pitch, value, width, height, s)
}

// MemsetD2D32Async queues a fill of what may be filled.
func (x *Copies) MemsetD2D32Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	return x.box(x.calls.MemsetD2D32Async, 4, dst, pitch, value, width, height, s)
}
