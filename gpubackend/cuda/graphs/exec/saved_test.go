// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestAttributesAndEdges come again, and nothing more than was there.
func TestAttributesAndEdges(t *testing.T) {
	r := newRig(t)
	g := r.create()
	kernel := &gpubackend.Node{Launch: gpubackend.Launch{Function: 5, Grid: [3]uint32{1, 2, 3}}}
	first := r.add(g, kernel)
	value := bytes.Repeat([]byte{1}, cudaabi.LaunchAttributeValueSize)
	r.must(r.GraphKernelNodeSetAttribute(first, cudaabi.LaunchAttributePriority, value))
	second, _, _, result := r.GraphAddNode(g, []gpubackend.GraphNode{first}, []byte("theedge."),
		kernel)
	r.must(result)
	other, m, err := r.away([]gpubackend.Graph{g}, nil)
	if err != nil {
		t.Fatal(err)
	}
	made := other.f.graph(m.graphs[g])
	if string(made.edges[0].data[:]) != "theedge." {
		t.Errorf("the edge has %q", made.edges[0].data)
	}
	for n, want := range map[gpubackend.GraphNode]map[uint64][]byte{
		first: {cudaabi.LaunchAttributePriority: value}, second: {},
	} {
		if has := other.f.node(m.nodes[n]).attributes; !reflect.DeepEqual(has, want) {
			t.Errorf("attributes %v, want %v", has, want)
		}
	}
}

// TestUnsavable: what can't be made again, or isn't known, is refused.
func TestUnsavable(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, g gpubackend.Graph, e gpubackend.GraphExec){
		"memory that is gone": func(r *rig, g gpubackend.Graph, _ gpubackend.GraphExec) {
			n := r.f.node(r.add(g, fill(1)))
			cudaabi.GraphNodeParams(n.params).Memset().SetDst(1)
		},
		"an allocation": func(r *rig, g gpubackend.Graph, _ gpubackend.GraphExec) {
			n := r.f.node(r.add(g, fill(1)))
			cudaabi.GraphNodeParams(n.params).SetType(uint32(gpubackend.NodeMemAlloc))
		},
		"no copy": func(r *rig, g gpubackend.Graph, _ gpubackend.GraphExec) {
			r.f.refuse = true
			r.add(g, fill(1))
		},
		"a change of which there is no copy": func(r *rig, g gpubackend.Graph,
			e gpubackend.GraphExec,
		) {
			r.f.refuse = true
			list, _ := r.calls.GraphGetNodes(g)
			r.must(r.GraphExecNodeSet(e, list[0], fill(3)))
		},
		"kernels that launch it": func(r *rig, _ gpubackend.Graph, e gpubackend.GraphExec) {
			r.execs[e].flags = cudaabi.GraphInstantiateFlagDeviceLaunch
		},
		"an unknown one": func(r *rig, _ gpubackend.Graph, e gpubackend.GraphExec) {
			r.drop(e)
		},
		"two contexts": func(r *rig, _ gpubackend.Graph, _ gpubackend.GraphExec) {
			_, result := r.contexts.CtxCreate(0, 0)
			r.must(result)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			g := r.create()
			r.add(g, fill(1))
			e := r.instantiate(g)
			spoil(r, g, e)
			_, err := r.SaveGraphs([]gpubackend.Graph{g}, []gpubackend.GraphExec{e})
			if err == nil {
				t.Error("it is saved")
			}
		})
	}
}

// TestStrangeStates: what can't have been saved isn't made.
func TestStrangeStates(t *testing.T) {
	for name, spoil := range map[string]func(g *gpubackend.GraphState, e *gpubackend.ExecState){
		"after none": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[1].After = []int{2}
		},
		"after less than none": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[1].After = []int{-1}
		},
		"after itself": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[1].After = []int{1}
		},
		"after another twice": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[1].After = []int{0, 0}
		},
		"half an edge": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[1].Edges = []byte("half")
		},
		"no graph": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) { g.Graph = 0 },
		"no node": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Node = 0
		},
		"a node twice": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Node = g.Nodes[1].Node
		},
		"a context": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Context = 3
		},
		"memory": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].What.Fill.Dst = 1
		},
		"an allocation": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].What.Type = gpubackend.NodeMemAlloc
		},
		"a child": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Child = &gpubackend.GraphState{}
		},
		"bodies": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Bodies = []*gpubackend.GraphState{{}}
		},
		"no child": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].What.Type = gpubackend.NodeGraph
		},
		"half an attribute": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].What.Launch.Attributes = []byte{1}
		},
		"a copy of none": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Origin = 3
		},
		"a copy of itself": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			g.Nodes[0].Origin = g.Nodes[0].Node
		},
		"a source":  func(_ *gpubackend.GraphState, e *gpubackend.ExecState) { e.Source = 3 },
		"no source": func(_ *gpubackend.GraphState, e *gpubackend.ExecState) { e.Source = 0 },
		"flags":     func(_ *gpubackend.GraphState, e *gpubackend.ExecState) { e.Flags = 1 << 40 },
		"a name": func(_ *gpubackend.GraphState, e *gpubackend.ExecState) {
			e.Graph.Nodes[0].Origin = 3
		},
		"a name twice": func(_ *gpubackend.GraphState, e *gpubackend.ExecState) {
			e.Graph.Nodes[0].Origin = e.Graph.Nodes[1].Origin
		},
		"depth": func(g *gpubackend.GraphState, _ *gpubackend.ExecState) {
			for range maxDepth {
				inner := *g
				*g = gpubackend.GraphState{Graph: 99, Nodes: []gpubackend.NodeState{{
					Node: 98, Context: g.Nodes[0].Context, Child: &inner,
					What: gpubackend.Node{Type: gpubackend.NodeGraph},
				}}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			g := r.create()
			r.add(g, fill(2), r.add(g, fill(1)))
			all, err := r.SaveGraphs([]gpubackend.Graph{g},
				[]gpubackend.GraphExec{r.instantiate(g)})
			if err != nil {
				t.Fatal(err)
			}
			spoil(&all.Graphs[0], &all.Execs[0])
			if newRig(t).RestoreGraphs(all) == gpubackend.Success {
				t.Error("it is made")
			}
		})
	}
}

// TestStrangeParts: conditions and memory aren't made, since they aren't saved.
func TestStrangeParts(t *testing.T) {
	for _, all := range []*gpubackend.GraphStates{
		{Conditions: make([]gpubackend.ConditionState, 1)},
		{Memory: make([]gpubackend.GraphMemory, 1)},
		{Peaks: make([]gpubackend.GraphMemoryPeak, 1)},
	} {
		if newRig(t).RestoreGraphs(all) == gpubackend.Success {
			t.Errorf("%+v is made", all)
		}
	}
	newRig(t).must(newRig(t).RestoreGraphs(&gpubackend.GraphStates{}))
}

// TestFixedGraphs counts conditions, until their graph is gone.
func TestFixedGraphs(t *testing.T) {
	r := newRig(t)
	g := r.create()
	r.conditions[g] = 2
	if n := r.FixedGraphs(); n != 2 {
		t.Errorf("%d", n)
	}
	r.must(r.GraphDestroy(g))
	if n := r.FixedGraphs(); n != 0 {
		t.Errorf("%d", n)
	}
}
