// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// GraphNodeGet reads what a node does.
func (x *Graphs) GraphNodeGet(node gpubackend.GraphNode) (*gpubackend.Node, gpubackend.Result) {
	t, r := x.calls.GraphNodeGetType(node)
	if r != gpubackend.Success {
		return nil, r
	}
	n := &gpubackend.Node{Type: gpubackend.NodeType(t)}
	if n.Type == gpubackend.NodeEmpty {
		return n, gpubackend.Success
	}
	m, r := x.calls.GraphNodeGetParams(node, n.Type)
	if r != gpubackend.Success {
		return nil, r
	}
	defer m.Free()
	r = x.decode(n, m.Bytes())
	for _, at := range [...]*uint64{&n.Copy.Dst, &n.Copy.Src, &n.Fill.Dst} {
		*at = x.ranges.Told.Back(*at)
	}
	return n, r
}

func (x *Graphs) decode(n *gpubackend.Node, b []byte) gpubackend.Result {
	switch n.Type {
	case gpubackend.NodeKernel:
		return x.decodeKernel(&n.Launch, b)
	case gpubackend.NodeMemcpy:
		return decodeCopy(&n.Copy, b)
	case gpubackend.NodeMemset:
		p := cudaabi.MemsetNodeParams(b)
		n.Fill = gpubackend.Fill{
			Dst: p.Dst(), Pitch: p.Pitch(), Value: uint64(p.Value()),
			Element: uint64(p.ElementSize()),
			Width:   p.Width(), Height: p.Height(),
		}
	case gpubackend.NodeHost:
		p := cudaabi.HostNodeParams(b)
		n.Token = hostfuncs.Token(p.Fn(), p.UserData())
	case gpubackend.NodeGraph:
		n.Child = gpubackend.Graph(cudaabi.ChildGraphNodeParams(b).Graph())
	case gpubackend.NodeEventRecord:
		n.Event = gpubackend.Event(cudaabi.EventRecordNodeParams(b).Event())
	case gpubackend.NodeEventWait:
		n.Event = gpubackend.Event(cudaabi.EventWaitNodeParams(b).Event())
	case gpubackend.NodeMemAlloc:
		p := cudaabi.MemAllocNodeParams(b)
		n.Pool, n.Bytes, n.Address = bytes.Clone(p.PoolProps()), p.Bytesize(), p.Dptr()
		if p.AccessDescs() != 0 {
			n.Access = cmem.BytesAt(p.AccessDescs(), cudaabi.MemAccessDescSize*p.AccessDescCount())
		}
	case gpubackend.NodeMemFree:
		n.Address = cudaabi.MemFreeNodeParams(b).Dptr()
	case gpubackend.NodeMemOps:
		p := cudaabi.BatchMemOpNodeParams(b)
		n.Flags = uint64(p.Flags())
		n.Ops = cmem.BytesAt(p.ParamArray(), cudaabi.StreamBatchMemOpParamsSize*uint64(p.Count()))
	}
	return gpubackend.Success
}

// decodeKernel packs a kernel's parameters, which the driver keeps apart or packed.
func (x *Graphs) decodeKernel(l *gpubackend.Launch, p cudaabi.KernelNodeParams) gpubackend.Result {
	l.Function = gpubackend.Function(p.Func())
	if l.Function == 0 {
		f, r := x.needs.FunctionOf(gpubackend.Kernel(p.Kern()))
		if r != gpubackend.Success {
			return r
		}
		l.Function = f
	}
	l.Grid = [3]uint32{p.GridDimX(), p.GridDimY(), p.GridDimZ()}
	l.Block = [3]uint32{p.BlockDimX(), p.BlockDimY(), p.BlockDimZ()}
	l.Shared = p.SharedMemBytes()
	if p.KernelParams() == 0 {
		l.Parameters = packedAt(p.Extra())
		return gpubackend.Success
	}
	layout, end, r := x.calls.FuncParameters(l.Function)
	if r != gpubackend.Success {
		return r
	}
	l.Parameters = make([]byte, end)
	for i, at := range cmem.WordsAt(p.KernelParams(), uint64(len(layout)/8)) {
		offset, size := binary.LittleEndian.Uint32(layout[8*i:]),
			binary.LittleEndian.Uint32(layout[8*i+4:])
		copy(l.Parameters[offset:], cmem.BytesAt(at, uint64(size)))
	}
	return gpubackend.Success
}

// packedAt reads the parameters of the `extra` form.
func packedAt(extra uint64) []byte {
	if extra == 0 {
		return nil
	}
	var data, size uint64
	for {
		pair := cmem.WordsAt(extra, 2)
		switch pair[0] {
		case cudaabi.LaunchParamBufferPointer:
			data = pair[1]
		case cudaabi.LaunchParamBufferSize:
			size = cmem.WordsAt(pair[1], 1)[0]
		default:
			if data == 0 || size > cudaabi.MaxParameterBytes {
				return nil
			}
			return cmem.BytesAt(data, size)
		}
		extra += 16
	}
}

// decodeCopy reads CUDA_MEMCPY3D. Copies of arrays aren't supported.
func decodeCopy(b *gpubackend.Box, m cudaabi.Memcpy3D) gpubackend.Result {
	side := func(s cudaabi.Memcpy3DSide) (address, pitch, slice uint64, ok bool) {
		pitch = s.Pitch()
		slice = pitch * s.Height()
		switch s.MemoryType() {
		case cudaabi.MemoryTypeHost:
			address = s.Host()
		case cudaabi.MemoryTypeDevice, cudaabi.MemoryTypeUnified:
			address = s.Device()
		default:
			return 0, 0, 0, false
		}
		return address + s.Z()*slice + s.Y()*pitch + s.XInBytes(), pitch, slice, true
	}
	var ok, ok2 bool
	b.Src, b.SrcPitch, b.SrcSlice, ok = side(m.Src())
	b.Dst, b.DstPitch, b.DstSlice, ok2 = side(m.Dst())
	b.Width, b.Height, b.Depth = m.WidthInBytes(), m.Height(), m.Depth()
	if !ok || !ok2 {
		return gpubackend.NotSupported
	}
	return gpubackend.Success
}
