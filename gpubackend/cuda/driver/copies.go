// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"runtime"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
)

// MemcpyAsync queues a copy; the driver finds out what both sides are.
func (d Copies) MemcpyAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpyAsync, dst, src, bytes, uint64(s))
}

// MemcpyHtoDAsync queues a copy from host memory.
func (d Copies) MemcpyHtoDAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpyHtoDAsync, dst, src, bytes, uint64(s))
}

// MemcpyDtoHAsync queues a copy to host memory.
func (d Copies) MemcpyDtoHAsync(dst, src, bytes uint64, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpyDtoHAsync, dst, src, bytes, uint64(s))
}

// CopyFrom copies a slice to the device. The driver stages up to 64 KiB before it returns; it waits
// for more.
func (d Copies) CopyFrom(dst uint64, src []byte, s gpubackend.Stream) gpubackend.Result {
	r := d.MemcpyHtoDAsync(dst, cmem.AddressOf(src), uint64(len(src)), s)
	runtime.KeepAlive(src)
	return r
}

// CopyTo copies to a slice in a stream, and waits for that.
func (d Copies) CopyTo(dst []byte, src uint64, s gpubackend.Stream) gpubackend.Result {
	r := d.call(symMemcpyDtoHAsync, cmem.AddressOf(dst), src, uint64(len(dst)), uint64(s))
	if r == gpubackend.Success {
		r = d.call(symStreamSynchronize, uint64(s))
	}
	runtime.KeepAlive(dst)
	return r
}

// Memcpy2DAsync queues the copy of a CUDA_MEMCPY2D.
func (d Copies) Memcpy2DAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpy2DAsync, m.Address(), uint64(s))
}

// Memcpy3DAsync queues the copy of a CUDA_MEMCPY3D.
func (d Copies) Memcpy3DAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpy3DAsync, m.Address(), uint64(s))
}

// Memcpy3DPeerAsync queues the copy of a CUDA_MEMCPY3D_PEER.
func (d Copies) Memcpy3DPeerAsync(m cmem.Memory, s gpubackend.Stream) gpubackend.Result {
	return d.call(symMemcpy3DPeerAsync, m.Address(), uint64(s))
}

// MemcpyBatchAsync queues n copies, of which three arrays say to, from and how much. All have the
// attributes at one address; first is the address of a zero.
func (d Copies) MemcpyBatchAsync(
	to, from, sizes uint64, n int, attributes, first uint64, s gpubackend.Stream,
) gpubackend.Result {
	return d.call(symMemcpyBatchAsync, to, from, sizes, uint64(n), attributes, first, 1, uint64(s))
}
