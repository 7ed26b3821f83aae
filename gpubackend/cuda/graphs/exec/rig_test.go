// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cuda/graphs"
	"github.com/paracuda/paracuda/gpubackend/cuda/hostfuncs"
)

// noLimit is memory without one.
type noLimit struct{}

func (noLimit) Limit() uint64                { return 0 }
func (noLimit) HasRoomNow(int, uint64) bool  { return true }
func (noLimit) Recharge(int, uint64, uint64) {}
func (noLimit) Over(int) bool                { return false }
func (noLimit) Reclaim() bool                { return false }

const (
	at   = 1 << 40 // an address of memory
	host = 1 << 41 // one of the host's
)

// rig is the graphs of a process.
type rig struct {
	*Exec
	f *fake
}

func newRig(t *testing.T) *rig {
	f := &fake{t: t, graphs: map[gpubackend.Graph]*fakeGraph{},
		nodes: map[gpubackend.GraphNode]*fakeNode{}, execs: map[gpubackend.GraphExec]*fakeExec{}}
	x, list := contextstest.New(nil)
	ranges := copyable.New(f, x)
	ranges.SetWindow(at, 1<<30, 1)
	ranges.Host.Put(copyable.Span{Base: host, Bytes: 4096, Writable: true})
	needs := graphs.Needs{}
	v, err := hostfuncs.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	needs.HostNode = func(
		token uint64, f gpubackend.HostCall,
	) (function, data uint64, r gpubackend.Result) {
		function, data = v.Node(token, f)
		return function, data, gpubackend.Success
	}
	keeps := func() bool { return true }
	return &rig{New(f, x, graphs.New(f, x, list, ranges, noLimit{}, needs), keeps), f}
}

// fill is a node that sets memory to a value.
func fill(value uint64) *gpubackend.Node {
	return &gpubackend.Node{Type: gpubackend.NodeMemset, Fill: gpubackend.Fill{
		Dst: at, Pitch: 8, Value: value, Element: 1, Width: 8, Height: 1}}
}

func (r *rig) must(result gpubackend.Result) {
	r.f.t.Helper()
	if result != gpubackend.Success {
		r.f.t.Fatal(result)
	}
}

func (r *rig) create() gpubackend.Graph {
	g, result := r.calls.GraphCreate(0)
	r.must(result)
	return g
}

func (r *rig) add(
	g gpubackend.Graph, n *gpubackend.Node, after ...gpubackend.GraphNode,
) gpubackend.GraphNode {
	r.f.t.Helper()
	node, _, _, result := r.GraphAddNode(g, after, nil, n)
	r.must(result)
	return node
}

func (r *rig) instantiate(g gpubackend.Graph) gpubackend.GraphExec {
	e, result := r.GraphInstantiateWithFlags(g, 0)
	r.must(result)
	return e
}
