// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
	"github.com/paracuda/paracuda/gpubackend/worker/known"
)

// A node's record is words, the first of which is its type, and bytes behind them (docs/protocol.md, "Graphs").

const (
	accessBytes = 12 // of CUmemAccessDesc
	maxMemOps   = 256
	keptToken   = 1 << 63 // host functions of graphs
)

// nodeWords is how many words each type has behind the type.
var nodeWords = map[gpubackend.NodeType]int{
	gpubackend.NodeKernel: 6, gpubackend.NodeMemcpy: 9, gpubackend.NodeMemset: 6, gpubackend.NodeHost: 1,
	gpubackend.NodeGraph: 2, gpubackend.NodeEmpty: 0, gpubackend.NodeEventWait: 1, gpubackend.NodeEventRecord: 1,
	gpubackend.NodeMemAlloc: 3, gpubackend.NodeMemFree: 1, gpubackend.NodeMemOps: 2, gpubackend.NodeConditional: 3,
}

// decodeNode reads a record and looks up the handles in it.
func (w *Worker) decodeNode(c *call.Call, i int) (*gpubackend.Node, gpubackend.Result) {
	b, result := c.Input(i)
	if result != gpubackend.Success {
		return nil, result
	}
	if len(b) < 8 {
		return nil, gpubackend.InvalidValue
	}
	n := &gpubackend.Node{Type: gpubackend.NodeType(binary.LittleEndian.Uint64(b))}
	words, ok := nodeWords[n.Type]
	if !ok {
		return nil, gpubackend.NotSupported
	}
	if len(b) < 8+8*words {
		return nil, gpubackend.InvalidValue
	}
	v := make([]uint64, words)
	for k := range v {
		v[k] = binary.LittleEndian.Uint64(b[8+8*k:])
	}
	return n, w.decodeNodeWords(c, n, v, b[8+8*words:])
}

func (w *Worker) decodeNodeWords(c *call.Call, n *gpubackend.Node, v []uint64, tail []byte) (result gpubackend.Result) {
	switch n.Type {
	case gpubackend.NodeKernel:
		l := &n.Launch
		if v[5] > uint64(len(tail)) || v[5] > command.MaxParameters {
			return gpubackend.InvalidValue
		}
		l.Grid = [3]uint32{uint32(v[1]), uint32(v[1] >> 32), uint32(v[2])}
		l.Block = [3]uint32{uint32(v[2] >> 32), uint32(v[3]), uint32(v[3] >> 32)}
		l.Shared, l.Parameters = uint32(v[4]), tail[:v[5]]
		l.Function, result = w.kernels.Find(c, v[0])
	case gpubackend.NodeMemcpy:
		n.Copy = gpubackend.Box{
			Dst: v[0], DstPitch: v[1], DstSlice: v[2], Src: v[3], SrcPitch: v[4], SrcSlice: v[5],
			Width: v[6], Height: v[7], Depth: v[8],
		}
	case gpubackend.NodeMemset:
		n.Fill = gpubackend.Fill{Dst: v[0], Pitch: v[1], Value: v[2], Element: v[3], Width: v[4], Height: v[5]}
	case gpubackend.NodeHost:
		if v[0]&keptToken == 0 {
			return gpubackend.InvalidValue
		}
		n.Token = v[0]
		n.Call, result = w.keepHostFunc(v[0])
	case gpubackend.NodeGraph:
		n.Moved = v[1] == 1
		n.Child, result = handles.Graph(&w.objects, v[0])
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		n.Event, result = handles.Event(&w.objects, v[0])
	case gpubackend.NodeConditional:
		if !allowed.ConditionalKind.Has(v[1]) {
			return gpubackend.InvalidValue
		}
		n.Handle, n.Kind, n.Bodies = v[0], v[1], v[2]
	default:
		result = w.decodeNodeMemory(n, v, tail)
	}
	return result
}

func (w *Worker) decodeNodeMemory(n *gpubackend.Node, v []uint64, tail []byte) gpubackend.Result {
	switch n.Type {
	case gpubackend.NodeMemAlloc:
		if len(tail) < known.PoolBytes || v[2] > uint64(len(tail)-known.PoolBytes)/accessBytes {
			return gpubackend.InvalidValue
		}
		n.Bytes, n.Address, n.Pool = v[0], v[1], tail[:known.PoolBytes]
		n.Access = tail[known.PoolBytes : known.PoolBytes+v[2]*accessBytes]
		if !known.PlainPool(n.Pool) {
			return gpubackend.InvalidValue
		}
	case gpubackend.NodeMemFree:
		n.Address = v[0]
	case gpubackend.NodeMemOps:
		if v[0] > maxMemOps || v[0]*known.OpBytes > uint64(len(tail)) {
			return gpubackend.InvalidValue
		}
		n.Flags, n.Ops = v[1], tail[:v[0]*known.OpBytes]
		if !allowed.StreamOpsFlags.Has(n.Flags) || !known.Ops(n.Ops) {
			return gpubackend.InvalidValue
		}
	}
	return gpubackend.Success
}

// encodeNode puts a node's record into the guest's buffer, as much as it takes, and returns its size.
func (w *Worker) encodeNode(to []byte, n *gpubackend.Node) uint64 {
	if n == nil {
		return 0
	}
	v, tail := w.encodeNodeWords(n)
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(n.Type)))
	for _, x := range v {
		b.Write(binary.LittleEndian.AppendUint64(nil, x))
	}
	b.Write(tail)
	copy(to, b.Bytes())
	return uint64(b.Len())
}

func (w *Worker) encodeNodeWords(n *gpubackend.Node) (v []uint64, tail []byte) {
	switch n.Type {
	case gpubackend.NodeKernel:
		l := &n.Launch
		return []uint64{
			w.kernels.Name(l.Function), uint64(l.Grid[0]) | uint64(l.Grid[1])<<32, uint64(l.Grid[2]) | uint64(l.Block[0])<<32,
			uint64(l.Block[1]) | uint64(l.Block[2])<<32, uint64(l.Shared), uint64(len(l.Parameters)),
		}, l.Parameters
	case gpubackend.NodeMemcpy:
		b := &n.Copy
		return []uint64{b.Dst, b.DstPitch, b.DstSlice, b.Src, b.SrcPitch, b.SrcSlice, b.Width, b.Height, b.Depth}, nil
	case gpubackend.NodeMemset:
		f := &n.Fill
		return []uint64{f.Dst, f.Pitch, f.Value, f.Element, f.Width, f.Height}, nil
	case gpubackend.NodeHost:
		return []uint64{n.Token}, nil
	case gpubackend.NodeGraph:
		return []uint64{w.nameGraph(n.Child, 0), 0}, nil
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		return []uint64{w.objects.Existing(object.Event, uint64(n.Event))}, nil
	case gpubackend.NodeMemAlloc:
		return []uint64{n.Bytes, n.Address, uint64(len(n.Access) / accessBytes)}, append(bytes.Clone(n.Pool), n.Access...)
	case gpubackend.NodeMemFree:
		return []uint64{n.Address}, nil
	case gpubackend.NodeMemOps:
		return []uint64{uint64(len(n.Ops) / known.OpBytes), n.Flags}, n.Ops
	}
	return nil, nil
}
