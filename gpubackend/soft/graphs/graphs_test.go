// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
)

// rig is the graphs of a device on which nothing runs; fine is what Check says.
type rig struct {
	*Graphs
	*roomtest.Ground
	fine gpubackend.Result
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.Graphs = New(Options{
		Handles: r.Handles, Contexts: r.Contexts, Memory: r.Ground.Memory,
		Check: func(*gpubackend.Node) gpubackend.Result { return r.fine },
	})
	return r
}

func (r *rig) graph(t *testing.T) gpubackend.Graph {
	t.Helper()
	g, result := r.GraphCreate(0)
	resulttest.OK(t, result)
	return g
}

func (r *rig) node(
	t *testing.T, g gpubackend.Graph, after []gpubackend.GraphNode, n gpubackend.Node,
) gpubackend.GraphNode {
	t.Helper()
	h, _, _, result := r.GraphAddNode(g, after, nil, &n)
	resulttest.OK(t, result)
	return h
}

// TestRandomEdges compares edges with a set of pairs, and a clone with its original.
func TestRandomEdges(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := newRig(t)
	g := r.graph(t)
	var nodes []gpubackend.GraphNode
	for range 12 {
		nodes = append(nodes, r.node(t, g, nil, gpubackend.Node{Type: gpubackend.NodeEmpty}))
	}
	type pair struct{ from, to int }
	slow := map[pair]bool{}
	for range 400 {
		p := pair{random.IntN(12), random.IntN(12)}
		from, to := nodes[p.from:p.from+1], nodes[p.to:p.to+1]
		add := random.IntN(2) == 0
		expected := gpubackend.Success
		if p.from == p.to || slow[p] == add {
			expected = gpubackend.InvalidValue
		}
		if add {
			resulttest.Want(t, r.GraphAddDependencies(g, from, to, nil), expected)
		} else {
			resulttest.Want(t, r.GraphRemoveDependencies(g, from, to, nil), expected)
		}
		if expected == gpubackend.Success {
			slow[p] = add
		}
	}
	clone, result := r.GraphClone(g)
	resulttest.OK(t, result)
	for _, h := range []gpubackend.Graph{g, clone} {
		list, result := r.GraphGetNodes(h)
		resulttest.OK(t, result)
		from, to, result := r.GraphGetEdges(h, nil)
		resulttest.OK(t, result)
		found := map[pair]bool{}
		for i := range from {
			found[pair{slices.Index(list, from[i]), slices.Index(list, to[i])}] = true
		}
		for a := range 12 {
			for b := range 12 {
				if found[pair{a, b}] != slow[pair{a, b}] {
					t.Errorf("edge from %d to %d: %v", a, b, found[pair{a, b}])
				}
			}
		}
	}
	resulttest.OK(t, r.GraphDestroy(clone))
	resulttest.OK(t, r.GraphDestroy(g))
	if held := r.Held(); held != (Held{}) {
		t.Errorf("%+v are left", held)
	}
}

func TestRefusedNodesLeaveNothing(t *testing.T) {
	r := newRig(t)
	g := r.graph(t)
	before := r.Held()
	r.fine = gpubackend.InvalidHandle
	_, _, _, result := r.GraphAddNode(g, nil, nil, &gpubackend.Node{Type: gpubackend.NodeKernel})
	resulttest.Want(t, result, gpubackend.InvalidHandle)
	if r.Held() != before {
		t.Errorf("%+v, before %+v", r.Held(), before)
	}
}

// TestConditionsLastAsLongAsTheyAreHeld although their graph is gone.
func TestConditionsLastAsLongAsTheyAreHeld(t *testing.T) {
	r := newRig(t)
	g := r.graph(t)
	h, result := r.GraphConditionalHandle(g, 5, 0)
	resulttest.OK(t, result)
	r.node(t, g, nil,
		gpubackend.Node{Type: gpubackend.NodeConditional, Handle: h, Kind: cudaabi.GraphCondIf,
			Bodies: 1})
	found, result := r.Find(g)
	resulttest.OK(t, result)
	list := found.AllConditions(nil)
	if len(list) != 1 || list[0].Value.Load() != 5 {
		t.Fatalf("conditions %v", list)
	}
	r.HoldCondition(list[0])
	resulttest.OK(t, r.GraphDestroy(g))
	if !r.SetCondition(h, 7) || list[0].Value.Load() != 7 {
		t.Error("a condition that is held is gone")
	}
	r.ReleaseCondition(list[0])
	if r.SetCondition(h, 8) || r.Held() != (Held{}) {
		t.Errorf("%+v are left", r.Held())
	}
}

// TestMemoryLastsAsLongAsItsGraphs, or longer, while it is allocated.
func TestMemoryLastsAsLongAsItsGraphs(t *testing.T) {
	r := newRig(t)
	g := r.graph(t)
	pool := make(cudaabi.MemPoolProps, cudaabi.MemPoolPropsSize)
	pool.SetAllocType(cudaabi.MemAllocationPinned)
	pool.Location().SetType(cudaabi.MemLocationDevice)
	_, address, _, result := r.GraphAddNode(g, nil, nil,
		&gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: 1 << 20, Pool: pool})
	resulttest.OK(t, result)
	found, result := r.Find(g)
	resulttest.OK(t, result)
	nodes := func(yield func(*Node) bool) { yield(found.Nodes[0]) }
	if !r.CanAllocate(nodes, false) {
		t.Error("it can't be allocated")
	}
	r.AllocateAndFree(found.Nodes[0])
	if r.CanAllocate(nodes, false) || !r.CanAllocate(nodes, true) {
		t.Error("it can be allocated twice, or not be freed before")
	}
	resulttest.OK(t, r.GraphDestroy(g))
	if !r.HasAllocated(address) {
		t.Error("allocated memory is gone with its graph")
	}
	resulttest.OK(t, r.Free(address))
	if r.HasAllocated(address) || r.Held() != (Held{}) {
		t.Errorf("%+v are left", r.Held())
	}
	resulttest.Want(t, r.Free(address), gpubackend.NotFound)
}
