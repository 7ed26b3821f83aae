// SPDX-License-Identifier: Apache-2.0

package copies

import "github.com/paracuda/paracuda/gpubackend"

// MemsetD8Async passes on what may be filled.
func (x *Copies) MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := x.ranges.Fill(dst, 0, 1, n, 1); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD8Async(dst, value, n, s)
}

// MemsetD16Async passes on what may be filled.
func (x *Copies) MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := x.ranges.Fill(dst, 0, 2, n, 1); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD16Async(dst, value, n, s)
}

// MemsetD32Async passes on what may be filled.
func (x *Copies) MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result {
	if r := x.ranges.Fill(dst, 0, 4, n, 1); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD32Async(dst, value, n, s)
}

// MemsetD2D8Async passes on what may be filled.
func (x *Copies) MemsetD2D8Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	if r := x.ranges.Fill(dst, pitch, 1, width, height); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD2D8Async(dst, pitch, value, width, height, s)
}

// MemsetD2D16Async passes on what may be filled.
func (x *Copies) MemsetD2D16Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	if r := x.ranges.Fill(dst, pitch, 2, width, height); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD2D16Async(dst, pitch, value, width, height, s)
}

// MemsetD2D32Async passes on what may be filled.
func (x *Copies) MemsetD2D32Async(
	dst, pitch, value, width, height uint64, s gpubackend.Stream,
) gpubackend.Result {
	if r := x.ranges.Fill(dst, pitch, 4, width, height); r != gpubackend.Success {
		return r
	}
	return x.calls.MemsetD2D32Async(dst, pitch, value, width, height, s)
}
