// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"math/rand/v2"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func (f *fuzzer) graph() gpubackend.Graph    { return gpubackend.Graph(f.pick(f.graphs)) }
func (f *fuzzer) node() gpubackend.GraphNode { return gpubackend.GraphNode(f.pick(f.nodes)) }
func (f *fuzzer) exec() gpubackend.GraphExec { return gpubackend.GraphExec(f.pick(f.execs)) }

// some returns up to three nodes.
func (f *fuzzer) some() (list []gpubackend.GraphNode) {
	for range f.byte() & 3 {
		list = append(list, f.node())
	}
	return list
}

// what returns the description of a node.
func (f *fuzzer) what() *gpubackend.Node {
	n := &gpubackend.Node{Type: gpubackend.NodeType(f.byte() % 14)}
	switch n.Type {
	case gpubackend.NodeKernel:
		n.Launch.Function, n.Launch.Shared = gpubackend.Function(f.pick(f.functions)),
			uint32(f.size())
		n.Launch.Grid, n.Launch.Block = [3]uint32{1, uint32(f.byte() & 1), 1},
			[3]uint32{uint32(f.size()), 1, 1}
		n.Launch.Parameters = params(f.pick(f.memory))
	case gpubackend.NodeMemcpy:
		n.Copy = gpubackend.Box{
			Dst: f.pick(f.memory), Src: f.pick(f.memory), Width: f.size(),
			Height: 1 + uint64(f.byte()&1), Depth: 1,
			DstPitch: f.size(), SrcPitch: f.size(),
		}
	case gpubackend.NodeMemset:
		n.Fill = gpubackend.Fill{Dst: f.pick(f.memory), Element: uint64(f.byte() & 7),
			Width: f.size(), Height: f.size(), Pitch: f.size()}
	case gpubackend.NodeHost:
		n.Call = func(_ uint64, release func()) { release() }
	case gpubackend.NodeGraph:
		n.Child, n.Moved = f.graph(), f.byte()&1 == 0
	case gpubackend.NodeEventRecord, gpubackend.NodeEventWait:
		n.Event = f.event()
	case gpubackend.NodeMemAlloc:
		*n = *allocNode(f.size())
	case gpubackend.NodeMemFree:
		n.Address = f.pick(f.memory)
	case gpubackend.NodeConditional:
		n.Handle, n.Kind, n.Bodies = f.pick(f.conditions), uint64(f.byte()&3), uint64(f.byte()&3)
	}
	return n
}

func (f *fuzzer) graphStep() {
	d := f.d
	switch f.byte() % 24 {
	case 0:
		g, r := d.GraphCreate(0)
		keep(&f.graphs, g, r)
	case 1:
		d.GraphDestroy(f.graph())
	case 2:
		g, r := d.GraphClone(f.graph())
		keep(&f.graphs, g, r)
	case 3:
		e, r := d.GraphInstantiateWithFlags(f.graph(), uint64(f.byte()&9))
		keep(&f.execs, e, r)
	case 4:
		d.GraphExecDestroy(f.exec())
	case 5, 6:
		d.GraphLaunch(f.exec(), f.stream())
	case 7, 8, 9:
		n, address, bodies, r := d.GraphAddNode(f.graph(), f.some(), nil, f.what())
		keep(&f.nodes, n, r)
		for _, b := range bodies {
			keep(&f.graphs, b, r)
		}
		if address != 0 {
			keep(&f.memory, address, r)
		}
	case 10:
		d.GraphAddDependencies(f.graph(), f.some(), f.some(), nil)
	case 11:
		d.GraphRemoveDependencies(f.graph(), f.some(), f.some(), nil)
	case 12:
		d.GraphDestroyNode(f.node())
	case 13:
		d.GraphNodeSet(f.node(), f.what())
	case 14:
		d.GraphExecNodeSet(f.exec(), f.node(), f.what())
	case 15:
		d.GraphExecUpdate(f.graph(), f.exec())
	case 16:
		d.GraphNodeSetEnabled(f.exec(), f.node(), uint64(f.byte()&1))
	case 17:
		// The value is 0, so loops don't run. They would have no end: no body sets their condition.
		h, r := d.GraphConditionalHandle(f.graph(), 0, uint64(f.byte()&1))
		keep(&f.conditions, h, r)
	default:
		f.captureStep()
	}
}

func (f *fuzzer) captureStep() {
	d := f.d
	switch f.byte() % 8 {
	case 0, 1:
		d.StreamBeginCapture(f.stream(), 0)
	case 2:
		d.StreamBeginCaptureToGraph(f.stream(), f.graph(), f.some(), nil, 0)
	case 3, 4:
		g, r := d.StreamEndCapture(f.stream())
		keep(&f.graphs, g, r)
	case 5:
		d.StreamUpdateCaptureDependencies(f.stream(), f.some(), nil, uint64(f.byte()%3))
	case 6:
		d.GraphKernelNodeSetAttribute(f.node(), uint64(f.byte()%16),
			make([]byte, cudaabi.LaunchAttributeValueSize))
		d.GraphKernelNodeCopyAttributes(f.node(), f.node())
	default:
		g := f.graph()
		if nodes, r := d.GraphGetNodes(g); r == gpubackend.Success {
			for _, n := range nodes {
				keep(&f.nodes, n, r)
				if what, r := d.GraphNodeGet(n); r == gpubackend.Success && what.Child != 0 {
					keep(&f.graphs, what.Child, r)
				}
			}
		}
		d.StreamCaptureInfo(f.stream(), nil)
		d.HostFuncKept(f.stream(), 1, func(_ uint64, release func()) { release() })
	}
}

// TestRandomGraphCalls makes random calls, most of them about graphs. Most of their handles are
// right.
func TestRandomGraphCalls(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.NewChaCha8([32]byte{byte(seed), 5})
		z := &fuzzer{t: t, d: newDevice(t, Options{Memory: 64 << 20}), data: make([]byte, 8000)}
		random.Read(z.data)
		for i := range z.data {
			if random.Uint64()%16 > 0 {
				z.data[i] &= 0x3f // a handle that is right, a small size
			}
		}
		for i := range 3 {
			keep(&z.streams, newStream(t, z.d, uint64(i&1)), gpubackend.Success)
			keep(&z.events, newEvent(t, z.d), gpubackend.Success)
			keep(&z.memory, alloc(t, z.d, 1<<16), gpubackend.Success)
			keep(&z.graphs, newGraph(t, z.d), gpubackend.Success)
		}
		keep(&z.functions, getFunction(t, z.d, loadFile(t, z.d, "testdata/small.ptx"), "increment"),
			gpubackend.Success)
		for i := range 250 {
			if i%4 == 3 {
				z.step()
			} else {
				z.graphStep()
			}
		}
		z.finish()
		z.d.Close()
	}
}
