// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfunc"
	"github.com/paracuda/paracuda/gpubackend/cuda/reach"
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
	return n, x.decode(n, m.Bytes())
}

func (x *Graphs) decode(n *gpubackend.Node, b []byte) gpubackend.Result {
	at := func(offset int) uint64 { return binary.NativeEndian.Uint64(b[offset:]) }
	at32 := func(offset int) uint64 { return uint64(binary.NativeEndian.Uint32(b[offset:])) }
	switch n.Type {
	case gpubackend.NodeKernel:
		return x.decodeKernel(&n.Launch, b)
	case gpubackend.NodeMemcpy:
		return decodeCopy(&n.Copy, b)
	case gpubackend.NodeMemset:
		n.Fill = gpubackend.Fill{
			Dst: at(0), Pitch: at(8), Value: at32(16), Element: at32(20), Width: at(24), Height: at(32),
		}
	case gpubackend.NodeHost:
		n.Token = hostfunc.Token(at(0), at(8))
	case gpubackend.NodeGraph:
		n.Child = gpubackend.Graph(at(0))
	case gpubackend.NodeEventRecord, gpubackend.NodeEventWait:
		n.Event = gpubackend.Event(at(0))
	case gpubackend.NodeMemAlloc:
		n.Pool, n.Bytes, n.Address = append([]byte(nil), b[:poolBytes]...), at(104), at(112)
		if at(88) != 0 {
			n.Access = cmem.BytesAt(at(88), accessBytes*at(96))
		}
	case gpubackend.NodeMemFree:
		n.Address = at(0)
	case gpubackend.NodeMemOps:
		n.Flags, n.Ops = at32(24), cmem.BytesAt(at(16), memOpBytes*at32(8))
	}
	return gpubackend.Success
}

// decodeKernel packs a kernel's parameters, which the driver keeps apart or packed.
func (x *Graphs) decodeKernel(l *gpubackend.Launch, b []byte) gpubackend.Result {
	at := func(offset int) uint64 { return binary.NativeEndian.Uint64(b[offset:]) }
	l.Function = gpubackend.Function(at(0))
	if l.Function == 0 {
		f, r := x.needs.FunctionOf(gpubackend.Kernel(at(56)))
		if r != gpubackend.Success {
			return r
		}
		l.Function = f
	}
	for i := range 3 {
		l.Grid[i] = binary.NativeEndian.Uint32(b[8+4*i:])
		l.Block[i] = binary.NativeEndian.Uint32(b[20+4*i:])
	}
	l.Shared = binary.NativeEndian.Uint32(b[32:])
	if at(40) == 0 {
		l.Parameters = packedAt(at(48))
		return gpubackend.Success
	}
	layout, end, r := x.calls.FuncParameters(l.Function)
	if r != gpubackend.Success {
		return r
	}
	l.Parameters = make([]byte, end)
	for i, p := range cmem.WordsAt(at(40), uint64(len(layout)/8)) {
		offset, size := binary.LittleEndian.Uint32(layout[8*i:]), binary.LittleEndian.Uint32(layout[8*i+4:])
		copy(l.Parameters[offset:], cmem.BytesAt(p, uint64(size)))
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
		case 1:
			data = pair[1]
		case 2:
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

// decodeCopy reads CUDA_MEMCPY3D. Copies of arrays are not known here.
func decodeCopy(b *gpubackend.Box, p []byte) gpubackend.Result {
	at := func(offset int) uint64 { return binary.NativeEndian.Uint64(p[offset:]) }
	side := func(base int) (address, pitch, slice uint64, ok bool) {
		pitch = at(base + 72)
		slice = pitch * at(base+80)
		switch binary.NativeEndian.Uint32(p[base+32:]) {
		case reach.MemoryHost:
			address = at(base + 40)
		case reach.MemoryDevice, reach.MemoryUnified:
			address = at(base + 48)
		default:
			return 0, 0, 0, false
		}
		return address + at(base+16)*slice + at(base+8)*pitch + at(base), pitch, slice, true
	}
	var ok, ok2 bool
	b.Src, b.SrcPitch, b.SrcSlice, ok = side(0)
	b.Dst, b.DstPitch, b.DstSlice, ok2 = side(88)
	b.Width, b.Height, b.Depth = at(176), at(184), at(192)
	if !ok || !ok2 {
		return gpubackend.NotSupported
	}
	return gpubackend.Success
}
