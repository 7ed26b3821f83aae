// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Memory in the window is made by virtual memory management. If a GPU has no access to another's,
// the driver copies between them only if it is told both contexts. It goes through host memory
// where the host has no other way.

// MemcpyPeerAsync queues a copy between the memory of two contexts.
func (x *Copies) MemcpyPeerAsync(
	dst uint64, to gpubackend.Context, src uint64, from gpubackend.Context, bytes uint64,
	s gpubackend.Stream,
) gpubackend.Result {
	for _, h := range []gpubackend.Context{to, from} {
		if c := x.contexts.Of(h); c == nil || !c.Exists() {
			return gpubackend.InvalidContext
		}
	}
	if bytes == 0 {
		return gpubackend.Success
	}
	there, here, r := x.ranges.Copy(dst, src, bytes)
	switch {
	case r != gpubackend.Success:
		return r
	case there.Side == copyable.Host || here.Side == copyable.Host:
		return x.Copy(dst, src, bytes, s)
	}
	return x.calls.MemcpyPeerAsync(there.Address, to, here.Address, from, bytes, s)
}

// ends are contexts of two GPUs, the destination's and the source's.
func (x *Copies) ends(of [2]int) (list [2]gpubackend.Context, r gpubackend.Result) {
	for i, gpu := range of {
		c := x.contexts.On(gpu)
		if c == nil {
			return list, gpubackend.InvalidValue // without a context it has no memory
		}
		list[i] = c.Handle
	}
	return list, gpubackend.Success
}

// peerCopy queues a copy from the window of one GPU to that of another.
func (x *Copies) peerCopy(
	dst, src, bytes uint64, of [2]int, s gpubackend.Stream,
) gpubackend.Result {
	ends, r := x.ends(of)
	if r != gpubackend.Success {
		return r
	}
	return x.calls.MemcpyPeerAsync(dst, ends[0], src, ends[1], bytes, s)
}

// peerBox is peerCopy for a box, whose pitches are at least its width.
func (x *Copies) peerBox(b *gpubackend.Box, of [2]int, s gpubackend.Stream) gpubackend.Result {
	ends, r := x.ends(of)
	if r != gpubackend.Success {
		return r
	}
	structure := cmem.Allocate(cudaabi.Memcpy3DPeerSize)
	defer structure.Free()
	m := cudaabi.Memcpy3DPeer(structure.Bytes())
	planes := *b
	if !wholeRows(b) { // one by one
		planes.Depth, planes.DstSlice, planes.SrcSlice = 1, 0, 0
	}
	for z := uint64(0); z < b.Depth; z += planes.Depth {
		planes.Dst, planes.Src = b.Dst+z*b.DstSlice, b.Src+z*b.SrcSlice
		Put3D(cudaabi.Memcpy3D(structure.Bytes()), &planes, copyable.Device, copyable.Device)
		m.SetDstContext(uint64(ends[0]))
		m.SetSrcContext(uint64(ends[1]))
		if r := x.calls.Memcpy3DPeerAsync(structure, s); r != gpubackend.Success {
			return r
		}
	}
	return gpubackend.Success
}
