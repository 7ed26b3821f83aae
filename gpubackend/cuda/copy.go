// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/driver"
)

// Copy queues a copy between any two addresses that the guest may name.
func (d *Device) Copy(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	if bytes == 0 {
		return gpubackend.Success
	}
	to, from, r := d.reachCopy(dst, src, bytes)
	if r != gpubackend.Success {
		return r
	}
	if to == sideGraph || from == sideGraph {
		return d.typedCopy(to, from)(dst, src, bytes, s)
	}
	return d.MemcpyAsync(dst, src, bytes, s)
}

// typedCopy is the function that says of both sides what they are.
func (d *Device) typedCopy(to, from side) func(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	switch {
	case from == sideHost:
		return d.MemcpyHtoDAsync
	case to == sideHost:
		return d.MemcpyDtoHAsync
	}
	return d.calls.MemcpyDtoDAsync
}

// MemcpyDtoDAsync passes on what may be copied.
func (d *Device) MemcpyDtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	if bytes > 0 {
		if _, _, r := d.reachCopy(dst, src, bytes); r != gpubackend.Success {
			return r
		}
	}
	return d.calls.MemcpyDtoDAsync(dst, src, bytes, s)
}

// CopyIn copies ordinary memory to the device. The driver stages up to 64 KiB before it returns; it
// waits for more.
func (d *Device) CopyIn(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result {
	if len(src) == 0 {
		return gpubackend.Success
	}
	if _, r := d.reach(dst, uint64(len(src)), true); r != gpubackend.Success {
		return r
	}
	return d.CopyFrom(dst, src, s)
}

// CopyOut copies to ordinary memory in a stream of its own, so that it waits for nothing but itself.
func (d *Device) CopyOut(dst []byte, src uint64) gpubackend.Result {
	if len(dst) == 0 {
		return gpubackend.Success
	}
	if d.state == nil {
		return gpubackend.InvalidContext
	}
	if _, r := d.reach(src, uint64(len(dst)), false); r != gpubackend.Success {
		return d.failed(r)
	}
	if d.state.copies == 0 {
		s, r := d.calls.StreamCreateWithPriority(driver.StreamNonBlocking, 0)
		if r != gpubackend.Success {
			return r
		}
		d.state.copies = s
	}
	return d.failed(d.CopyTo(dst, src, d.state.copies))
}

// CUDA_MEMCPY2D and CUDA_MEMCPY3D.
const (
	memcpy2DSize = 128
	memcpy3DSize = 200
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
	rows := *b
	rows.DstPitch, rows.SrcPitch = max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	to, from, r := d.reachBox(&rows)
	if r != gpubackend.Success {
		return r
	}
	if rows.Depth > 1 && rows.DstSlice%rows.DstPitch == 0 && rows.SrcSlice%rows.SrcPitch == 0 &&
		rows.DstSlice/rows.DstPitch >= rows.Height && rows.SrcSlice/rows.SrcPitch >= rows.Height {
		return d.copy3D(&rows, to, from, s)
	}
	for z := range rows.Depth {
		if r := d.copy2D(&rows, z, to, from, s); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

func (d *Device) copy2D(b *gpubackend.Box, z uint64, to, from side, s gpubackend.Stream) gpubackend.Result {
	m := cmem.Allocate(memcpy2DSize)
	defer m.Free()
	p := m.Bytes()
	put32 := binary.LittleEndian.PutUint32
	put := binary.LittleEndian.PutUint64
	put32(p[16:], from.memoryType())
	put(p[32:], b.Src+z*b.SrcSlice)
	put(p[48:], b.SrcPitch)
	put32(p[72:], to.memoryType())
	put(p[88:], b.Dst+z*b.DstSlice)
	put(p[104:], b.DstPitch)
	put(p[112:], b.Width)
	put(p[120:], b.Height)
	return d.Memcpy2DAsync(m, s)
}

func (d *Device) copy3D(b *gpubackend.Box, to, from side, s gpubackend.Stream) gpubackend.Result {
	m := cmem.Allocate(memcpy3DSize)
	defer m.Free()
	put3D(m.Bytes(), b, to, from)
	return d.Memcpy3DAsync(m, s)
}

// put3D writes a CUDA_MEMCPY3D. Slices are whole numbers of rows.
func put3D(p []byte, b *gpubackend.Box, to, from side) {
	put, put32 := binary.LittleEndian.PutUint64, binary.LittleEndian.PutUint32
	put32(p[32:], from.memoryType())
	put(p[48:], b.Src)
	put(p[72:], b.SrcPitch)
	put(p[80:], b.SrcSlice/b.SrcPitch)
	put32(p[120:], to.memoryType())
	put(p[136:], b.Dst)
	put(p[160:], b.DstPitch)
	put(p[168:], b.DstSlice/b.DstPitch)
	put(p[176:], b.Width)
	put(p[184:], b.Height)
	put(p[192:], b.Depth)
}
