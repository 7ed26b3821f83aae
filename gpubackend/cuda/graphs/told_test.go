// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// oneNode is a driver whose graphs have one node, of which it has the parameters.
type oneNode struct {
	*fake
	kind   gpubackend.NodeType
	params []byte
}

func (f *oneNode) GraphNodeGetType(gpubackend.GraphNode) (uint64, gpubackend.Result) {
	return uint64(f.kind), gpubackend.Success
}

func (f *oneNode) GraphNodeGetParams(
	gpubackend.GraphNode, gpubackend.NodeType,
) (cmem.Memory, gpubackend.Result) {
	return cmem.Copied(f.params, 0), gpubackend.Success
}

// TestNodesOfConstants: the driver gets its own address of a constant, and the guest is told the
// one that it knows.
func TestNodesOfConstants(t *testing.T) {
	const at, real, base = 1 << 40, 0x9000, 1 << 41
	x, f, _ := newGraphs(0)
	x.ranges.Told.SetRange(base, 1<<20)
	told, ok := x.ranges.Told.Add(real, 64)
	if !ok {
		t.Fatal("no address")
	}
	fill := gpubackend.Node{Type: gpubackend.NodeMemset,
		Fill: gpubackend.Fill{Dst: told + 4, Value: 7, Element: 4, Width: 8, Height: 1}}
	write := gpubackend.Node{Type: gpubackend.NodeMemcpy,
		Copy: gpubackend.Box{Dst: told + 8, Src: at, Width: 16, Height: 1, Depth: 1}}
	read := gpubackend.Node{Type: gpubackend.NodeMemcpy,
		Copy: gpubackend.Box{Dst: at, Src: told + 8, Width: 16, Height: 1, Depth: 1}}
	for _, n := range []*gpubackend.Node{&fill, &write, &read} {
		if _, _, _, r := x.GraphAddNode(1, nil, nil, n); r != gpubackend.Success {
			t.Fatal(r)
		}
		got := [...]uint64{f.read.Fill.Dst, f.read.Copy.Dst, f.read.Copy.Src}
		for i, addr := range [...]uint64{n.Fill.Dst, n.Copy.Dst, n.Copy.Src} {
			if addr-told < 64 {
				addr += real - told
			}
			if got[i] != addr {
				t.Errorf("the driver gets %#x, not %#x", got[i], addr)
			}
		}
		m, _ := x.encode(n)
		part := []byte(cudaabi.GraphNodeParams(m.Bytes()).Memset())
		if n.Type == gpubackend.NodeMemcpy {
			part = cudaabi.GraphNodeParams(m.Bytes()).Memcpy().CopyParams()
		}
		x.calls = &oneNode{f, n.Type, part}
		back, r := x.GraphNodeGet(2)
		m.Free()
		x.calls = f
		if r != gpubackend.Success || back.Fill.Dst != n.Fill.Dst || back.Copy.Dst != n.Copy.Dst ||
			back.Copy.Src != n.Copy.Src {
			t.Errorf("read: %+v, result %d", back, r)
		}
	}
	fill.Fill.Width = 16
	if _, _, _, r := x.GraphAddNode(1, nil, nil, &fill); r != gpubackend.InvalidValue {
		t.Errorf("a fill beyond the end: %d", r)
	}
}
