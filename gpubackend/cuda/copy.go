// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"
	"runtime"

	"github.com/paracuda/paracuda/gpubackend"
)

// Copy queues a copy between any two addresses that the driver knows.
func (d *Device) Copy(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	if bytes == 0 {
		return gpubackend.Success
	}
	return d.call(symMemcpyAsync, dst, src, bytes, uint64(s))
}

// CopyIn copies ordinary memory to the device. The driver stages up to 64 KiB before it returns; it
// waits for more.
func (d *Device) CopyIn(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result {
	if len(src) == 0 {
		return gpubackend.Success
	}
	r := d.call(symMemcpyHtoDAsync, dst, addressOf(src), uint64(len(src)), uint64(s))
	runtime.KeepAlive(src)
	return r
}

// CopyOut copies to ordinary memory in a stream of its own, so that it waits for nothing but itself.
func (d *Device) CopyOut(dst []byte, src uint64) gpubackend.Result {
	if len(dst) == 0 {
		return gpubackend.Success
	}
	if d.state == nil {
		return gpubackend.InvalidContext
	}
	if d.state.copies == 0 {
		s, r := d.calls.StreamCreateWithPriority(streamNonBlocking, 0)
		if r != gpubackend.Success {
			return r
		}
		d.state.copies = s
	}
	r := d.call(symMemcpyDtoHAsync, addressOf(dst), src, uint64(len(dst)), uint64(d.state.copies))
	if r == gpubackend.Success {
		r = d.call(symStreamSynchronize, uint64(d.state.copies))
	}
	runtime.KeepAlive(dst)
	return d.failed(r)
}

// streamNonBlocking makes a stream that the default stream doesn't wait for.
const streamNonBlocking = 1

// CUDA_MEMCPY2D and CUDA_MEMCPY3D, and CU_MEMORYTYPE_UNIFIED: the address says where memory is.
const (
	memcpy2DSize  = 128
	memcpy3DSize  = 200
	memoryUnified = 4
)

// CopyBox queues a copy of rows. The driver counts a slice in rows; where it isn't a whole number of them,
// planes are copied one by one.
func (d *Device) CopyBox(b *gpubackend.Box, s gpubackend.Stream) gpubackend.Result {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return gpubackend.Success
	}
	if b.Height > 1 && (b.DstPitch < b.Width || b.SrcPitch < b.Width) {
		return gpubackend.InvalidValue
	}
	dstPitch, srcPitch := max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	if b.Depth > 1 && b.DstSlice%dstPitch == 0 && b.SrcSlice%srcPitch == 0 &&
		b.DstSlice/dstPitch >= b.Height && b.SrcSlice/srcPitch >= b.Height {
		return d.copy3D(b, dstPitch, srcPitch, s)
	}
	for z := range b.Depth {
		if r := d.copy2D(b, z, dstPitch, srcPitch, s); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (d *Device) copy2D(b *gpubackend.Box, z, dstPitch, srcPitch uint64, s gpubackend.Stream) gpubackend.Result {
	m := allocate(memcpy2DSize)
	defer m.free()
	p := m.bytes()
	put32 := binary.LittleEndian.PutUint32
	put := binary.LittleEndian.PutUint64
	put32(p[16:], memoryUnified)
	put(p[32:], b.Src+z*b.SrcSlice)
	put(p[48:], srcPitch)
	put32(p[72:], memoryUnified)
	put(p[88:], b.Dst+z*b.DstSlice)
	put(p[104:], dstPitch)
	put(p[112:], b.Width)
	put(p[120:], b.Height)
	return d.call(symMemcpy2DAsync, m.address(), uint64(s))
}

func (d *Device) copy3D(b *gpubackend.Box, dstPitch, srcPitch uint64, s gpubackend.Stream) gpubackend.Result {
	m := allocate(memcpy3DSize)
	defer m.free()
	p := m.bytes()
	put32 := binary.LittleEndian.PutUint32
	put := binary.LittleEndian.PutUint64
	put32(p[32:], memoryUnified)
	put(p[48:], b.Src)
	put(p[72:], srcPitch)
	put(p[80:], b.SrcSlice/srcPitch)
	put32(p[120:], memoryUnified)
	put(p[136:], b.Dst)
	put(p[160:], dstPitch)
	put(p[168:], b.DstSlice/dstPitch)
	put(p[176:], b.Width)
	put(p[184:], b.Height)
	put(p[192:], b.Depth)
	return d.call(symMemcpy3DAsync, m.address(), uint64(s))
}
