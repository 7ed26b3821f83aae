// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/contexts"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
)

// rig is the executable graphs of a device whose kernels only note that they ran.
type rig struct {
	*Exec
	*roomtest.Ground
	graphs  *graphs.Graphs
	streams *streams.Streams

	mu  sync.Mutex
	ran []uint64          // tokens of the nodes that ran, in that order
	set map[uint64]func() // what is done when a node with that token runs
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20), set: make(map[uint64]func())}
	r.graphs = graphs.New(graphs.Options{
		Handles: r.Handles, Contexts: r.Contexts, Memory: r.Memory,
		Check: func(*gpubackend.Node) gpubackend.Result { return gpubackend.Success },
	})
	r.streams = streams.New(streams.Options{
		Handles: r.Handles, Scheduler: r.Scheduler, Contexts: r.Contexts, Graphs: r.graphs,
	})
	r.Lasts = r.streams.Lasts
	r.Exec = New(Options{
		Handles: r.Handles, Contexts: r.Contexts, Scheduler: r.Scheduler, Graphs: r.graphs,
		Streams: r.streams,
		Prepare: map[gpubackend.NodeType]Prepare{gpubackend.NodeKernel: r.prepare},
	})
	return r
}

func (r *rig) prepare(
	n *gpubackend.Node, c *contexts.Context,
) (func() *scheduler.Task, gpubackend.Result) {
	token := n.Token
	return func() *scheduler.Task {
		return &scheduler.Task{Class: scheduler.Memory, Domain: c.Domain, Run: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ran = append(r.ran, token)
			if f := r.set[token]; f != nil {
				f()
			}
		}}
	}, gpubackend.Success
}

// kernel adds a node with a token.
func (r *rig) kernel(
	t *testing.T, g gpubackend.Graph, token uint64, after ...gpubackend.GraphNode,
) gpubackend.GraphNode {
	t.Helper()
	n, _, _, result := r.graphs.GraphAddNode(g, after, nil,
		&gpubackend.Node{Type: gpubackend.NodeKernel, Token: token})
	resulttest.OK(t, result)
	return n
}

func (r *rig) graph(t *testing.T) gpubackend.Graph {
	t.Helper()
	g, result := r.graphs.GraphCreate(0)
	resulttest.OK(t, result)
	return g
}

// run launches a graph and returns what ran.
func (r *rig) run(t *testing.T, e gpubackend.GraphExec) []uint64 {
	t.Helper()
	r.ran = nil
	resulttest.OK(t, r.GraphLaunch(e, 0))
	resulttest.OK(t, r.Idle(t))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran
}

func (r *rig) instantiate(t *testing.T, g gpubackend.Graph) gpubackend.GraphExec {
	t.Helper()
	e, result := r.GraphInstantiateWithFlags(g, 0)
	resulttest.OK(t, result)
	return e
}

// TestRandomGraphsRunInOrder: as many nodes run as there are, each after those that it depends on.
func TestRandomGraphsRunInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	r := newRig(t)
	for range 40 {
		g := r.graph(t)
		n := 1 + random.IntN(20)
		nodes, after := make([]gpubackend.GraphNode, n), make([][]int, n)
		for i := range nodes {
			var before []gpubackend.GraphNode
			for k := range i {
				if random.IntN(4) == 0 {
					after[i], before = append(after[i], k), append(before, nodes[k])
				}
			}
			nodes[i] = r.kernel(t, g, uint64(i), before...)
		}
		e := r.instantiate(t, g)
		for range 2 {
			ran := r.run(t, e)
			once := slices.Compact(slices.Sorted(slices.Values(ran)))
			if len(ran) != n || len(once) != n || once[n-1] != uint64(n-1) {
				t.Fatalf("of %d nodes %v ran", n, ran)
			}
			for i := range after {
				for _, k := range after[i] {
					if slices.Index(ran, uint64(k)) > slices.Index(ran, uint64(i)) {
						t.Errorf("%d ran before %d: %v", i, k, ran)
					}
				}
			}
		}
		resulttest.OK(t, r.GraphExecDestroy(e))
		resulttest.OK(t, r.graphs.GraphDestroy(g))
	}
	if held := r.graphs.Held(); held != (graphs.Held{}) {
		t.Errorf("%+v are left", held)
	}
}

func TestCycleIsRefused(t *testing.T) {
	r := newRig(t)
	g := r.graph(t)
	a := r.kernel(t, g, 1)
	b := r.kernel(t, g, 2, a)
	resulttest.OK(t,
		r.graphs.GraphAddDependencies(g, []gpubackend.GraphNode{b}, []gpubackend.GraphNode{a}, nil))
	before := r.graphs.Held()
	_, result := r.GraphInstantiateWithFlags(g, 0)
	resulttest.Want(t, result, gpubackend.InvalidValue)
	if r.graphs.Held() != before {
		t.Errorf("%+v, before %+v", r.graphs.Held(), before)
	}
}

// TestUpdateAndDisable change what an executable graph does, and not the graph that it was made of.
func TestUpdateAndDisable(t *testing.T) {
	r := newRig(t)
	g, other := r.graph(t), r.graph(t)
	n := r.kernel(t, g, 1)
	r.kernel(t, g, 2, n)
	r.kernel(t, other, 3, r.kernel(t, other, 4))
	e := r.instantiate(t, g)
	resulttest.OK(t, r.GraphNodeSetEnabled(e, n, 0))
	if ran := r.run(t, e); !slices.Equal(ran, []uint64{2}) {
		t.Errorf("ran %v", ran)
	}
	resulttest.OK(t, r.GraphNodeSetEnabled(e, n, 1))
	_, _, _, result := r.GraphExecUpdate(other, e)
	resulttest.OK(t, result)
	if ran := r.run(t, e); !slices.Equal(ran, []uint64{4, 3}) {
		t.Errorf("ran %v", ran)
	}
	r.kernel(t, other, 5)
	_, _, _, result = r.GraphExecUpdate(other, e)
	resulttest.Want(t, result, gpubackend.GraphExecUpdateFailure)
	if ran := r.run(t, r.instantiate(t, g)); !slices.Equal(ran, []uint64{1, 2}) {
		t.Errorf("ran %v", ran)
	}
}

// TestLoopRunsWhileItsConditionHolds and begins anew with each launch.
func TestLoopRunsWhileItsConditionHolds(t *testing.T) {
	r := newRig(t)
	g := r.graph(t)
	h, result := r.graphs.GraphConditionalHandle(g, 1, cudaabi.GraphCondAssignDefault)
	resulttest.OK(t, result)
	_, _, bodies, result := r.graphs.GraphAddNode(g, nil, nil, &gpubackend.Node{
		Type: gpubackend.NodeConditional, Handle: h, Kind: cudaabi.GraphCondWhile, Bodies: 1,
	})
	resulttest.OK(t, result)
	r.kernel(t, bodies[0], 9)
	runs := 0
	r.set[9] = func() {
		if runs++; runs%3 == 0 {
			r.graphs.SetCondition(h, 0)
		}
	}
	e := r.instantiate(t, g)
	for range 2 {
		if ran := r.run(t, e); len(ran) != 3 {
			t.Errorf("%d runs", len(ran))
		}
	}
}
