// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Calls are the functions of the driver that are called here.
type Calls interface {
	MemcpyAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	MemcpyHtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	MemcpyDtoHAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	MemcpyDtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result
	CopyFrom(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result
	CopyTo(dst []byte, src uint64, s gpubackend.Stream) gpubackend.Result
	MemcpyPeerAsync(
		dst uint64, to gpubackend.Context, src uint64, from gpubackend.Context, bytes uint64,
		s gpubackend.Stream,
	) gpubackend.Result
	Memcpy2DAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result
	Memcpy3DAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result
	Memcpy3DPeerAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result
	MemcpyBatchAsync(
		to, from, sizes uint64, n int, attributes, first uint64, s gpubackend.Stream,
	) gpubackend.Result

	MemsetD8Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result
	MemsetD16Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result
	MemsetD32Async(dst, value, n uint64, s gpubackend.Stream) gpubackend.Result
	MemsetD2D8Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result
	MemsetD2D16Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result
	MemsetD2D32Async(dst, pitch, value, width, height uint64, s gpubackend.Stream) gpubackend.Result
}

// Copies is the room that queues copies and fills.
type Copies struct {
	calls    Calls
	queues   Streams
	contexts *contexts.Contexts
	ranges   *copyable.Ranges
	streams  map[*contexts.Context]gpubackend.Stream // of ownStream, from the first on
}

// New returns a Copies that copies what is in ranges.
func New(calls Calls, x *contexts.Contexts, ranges *copyable.Ranges, queues Streams) *Copies {
	return &Copies{
		calls: calls, queues: queues, contexts: x, ranges: ranges,
		streams: make(map[*contexts.Context]gpubackend.Stream),
	}
}

// Copy queues a copy between any two addresses that the guest may name.
func (x *Copies) Copy(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	if bytes == 0 {
		return gpubackend.Success
	}
	to, from, r := x.ranges.Copy(dst, src, bytes)
	if r != gpubackend.Success {
		return r
	}
	dst, src = to.Address, from.Address
	if to.Side == copyable.Graph || from.Side == copyable.Graph {
		return x.typedCopy(to.Side, from.Side)(dst, src, bytes, s)
	}
	if of, apart := x.ranges.Apart(dst, src); apart {
		return x.peerCopy(dst, src, bytes, of, s)
	}
	if there := x.owner(dst, src); there != nil {
		return x.elsewhere(there, s, func(own gpubackend.Stream) gpubackend.Result {
			return x.calls.MemcpyAsync(dst, src, bytes, own)
		})
	}
	return x.calls.MemcpyAsync(dst, src, bytes, s)
}

// typedCopy is the driver's function for two sides whose kinds are known.
func (x *Copies) typedCopy(
	to, from copyable.Side,
) func(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	switch {
	case from == copyable.Host:
		return x.calls.MemcpyHtoDAsync
	case to == copyable.Host:
		return x.calls.MemcpyDtoHAsync
	}
	return x.calls.MemcpyDtoDAsync
}

// MemcpyDtoDAsync queues a copy if both sides may be named.
func (x *Copies) MemcpyDtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	if bytes > 0 {
		to, from, r := x.ranges.Copy(dst, src, bytes)
		if r != gpubackend.Success {
			return r
		}
		dst, src = to.Address, from.Address
	}
	if of, apart := x.ranges.Apart(dst, src); apart {
		return x.peerCopy(dst, src, bytes, of, s)
	}
	return x.calls.MemcpyDtoDAsync(dst, src, bytes, s)
}

// CopyIn copies ordinary memory to the device. The driver stages up to 64 KiB before it returns; it
// waits for more.
func (x *Copies) CopyIn(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result {
	if len(src) == 0 {
		return gpubackend.Success
	}
	to, r := x.ranges.At(dst, uint64(len(src)), true)
	if r != gpubackend.Success {
		return r
	}
	dst = to.Address
	if there := x.owner(dst, dst); there != nil {
		return x.elsewhere(there, s, func(own gpubackend.Stream) gpubackend.Result {
			return x.calls.CopyFrom(dst, src, own)
		})
	}
	return x.calls.CopyFrom(dst, src, s)
}

// CopyOut copies to ordinary memory in a stream of its own, so that it waits for nothing but
// itself.
func (x *Copies) CopyOut(dst []byte, src uint64) gpubackend.Result {
	if len(dst) == 0 {
		return gpubackend.Success
	}
	c := x.contexts.Current()
	if c == nil {
		return gpubackend.InvalidContext
	}
	from, r := x.ranges.At(src, uint64(len(dst)), false)
	if r != gpubackend.Success {
		return x.contexts.Failed(r)
	}
	src = from.Address
	if there := x.owner(src, src); there != nil {
		return x.contexts.In(there, func() gpubackend.Result { return x.copyOut(there, dst, src) })
	}
	return x.copyOut(c, dst, src)
}

// copyOut is CopyOut in the current context.
func (x *Copies) copyOut(c *contexts.Context, dst []byte, src uint64) gpubackend.Result {
	s, r := x.ownStream(c)
	if r != gpubackend.Success {
		return r
	}
	return x.contexts.Failed(x.calls.CopyTo(dst, src, s))
}

// Put copies to device memory of ours, and waits for that alone.
func (x *Copies) Put(dst uint64, src []byte) gpubackend.Result {
	return x.apart(func(own gpubackend.Stream) gpubackend.Result {
		return x.calls.CopyFrom(dst, src, own)
	})
}

// Clear fills device memory of ours with zeros, and waits for that alone.
func (x *Copies) Clear(dst, bytes uint64) gpubackend.Result {
	return x.apart(func(own gpubackend.Stream) gpubackend.Result {
		return x.calls.MemsetD8Async(dst, 0, bytes, own)
	})
}

// apart runs queue with a stream of its own, and waits for it.
func (x *Copies) apart(queue func(own gpubackend.Stream) gpubackend.Result) gpubackend.Result {
	c := x.contexts.Current()
	if c == nil {
		return gpubackend.InvalidContext
	}
	own, r := x.ownStream(c)
	if r == gpubackend.Success {
		r = queue(own)
	}
	if r == gpubackend.Success {
		r = x.queues.StreamSynchronize(own)
	}
	return x.contexts.Failed(r)
}

// Ended forgets the stream of a context that has ended.
func (x *Copies) Ended(c *contexts.Context) { delete(x.streams, c) }

// CopyBox queues a copy of rows. The driver counts slices in rows; where a slice isn't a whole
// number of rows, planes are copied one by one.
func (x *Copies) CopyBox(b *gpubackend.Box, s gpubackend.Stream) gpubackend.Result {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return gpubackend.Success
	}
	if b.Height > 1 && (b.DstPitch < b.Width || b.SrcPitch < b.Width) {
		return gpubackend.InvalidValue
	}
	rows := *b
	rows.DstPitch, rows.SrcPitch = max(b.DstPitch, b.Width), max(b.SrcPitch, b.Width)
	to, from, r := x.ranges.Box(&rows)
	if r != gpubackend.Success {
		return r
	}
	if of, apart := x.ranges.Apart(b.Dst, b.Src); apart {
		return x.peerBox(&rows, of, s)
	}
	if there := x.owner(b.Dst, b.Src); there != nil {
		return x.elsewhere(there, s, func(own gpubackend.Stream) gpubackend.Result {
			return x.planes(&rows, to, from, own)
		})
	}
	return x.planes(&rows, to, from, s)
}

// planes queues a box on one GPU.
func (x *Copies) planes(
	rows *gpubackend.Box, to, from copyable.Side, s gpubackend.Stream,
) gpubackend.Result {
	if rows.Depth > 1 && wholeRows(rows) {
		return x.copy3D(rows, to, from, s)
	}
	for z := range rows.Depth {
		if r := x.copy2D(rows, z, to, from, s); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}

// wholeRows says whether the planes of a box lie whole numbers of rows apart, as the driver counts.
func wholeRows(b *gpubackend.Box) bool {
	return b.DstSlice%b.DstPitch == 0 && b.SrcSlice%b.SrcPitch == 0 &&
		b.DstSlice/b.DstPitch >= b.Height && b.SrcSlice/b.SrcPitch >= b.Height
}

func (x *Copies) copy2D(
	b *gpubackend.Box, z uint64, to, from copyable.Side, s gpubackend.Stream,
) gpubackend.Result {
	structure := cmem.Allocate(cudaabi.Memcpy2DSize)
	defer structure.Free()
	m := cudaabi.Memcpy2D(structure.Bytes())
	src, dst := m.Src(), m.Dst()
	src.SetMemoryType(from.MemoryType())
	src.SetDevice(b.Src + z*b.SrcSlice)
	src.SetPitch(b.SrcPitch)
	dst.SetMemoryType(to.MemoryType())
	dst.SetDevice(b.Dst + z*b.DstSlice)
	dst.SetPitch(b.DstPitch)
	m.SetWidthInBytes(b.Width)
	m.SetHeight(b.Height)
	return x.calls.Memcpy2DAsync(structure, s)
}

func (x *Copies) copy3D(
	b *gpubackend.Box, to, from copyable.Side, s gpubackend.Stream,
) gpubackend.Result {
	m := cmem.Allocate(cudaabi.Memcpy3DSize)
	defer m.Free()
	Put3D(m.Bytes(), b, to, from)
	return x.calls.Memcpy3DAsync(m, s)
}

// Put3D writes a CUDA_MEMCPY3D. Slices are whole numbers of rows.
func Put3D(m cudaabi.Memcpy3D, b *gpubackend.Box, to, from copyable.Side) {
	src, dst := m.Src(), m.Dst()
	src.SetMemoryType(from.MemoryType())
	src.SetDevice(b.Src)
	src.SetPitch(b.SrcPitch)
	src.SetHeight(b.SrcSlice / b.SrcPitch)
	dst.SetMemoryType(to.MemoryType())
	dst.SetDevice(b.Dst)
	dst.SetPitch(b.DstPitch)
	dst.SetHeight(b.DstSlice / b.DstPitch)
	m.SetWidthInBytes(b.Width)
	m.SetHeight(b.Height)
	m.SetDepth(b.Depth)
}
