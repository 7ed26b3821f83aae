// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

func newGraph(t testing.TB, d *Device) gpubackend.Graph {
	t.Helper()
	g, result := d.GraphCreate(0)
	ok(t, result)
	return g
}

func addNode(
	t testing.TB, d *Device, g gpubackend.Graph, n *gpubackend.Node, after ...gpubackend.GraphNode,
) gpubackend.GraphNode {
	t.Helper()
	h, _, _, result := d.GraphAddNode(g, after, nil, n)
	ok(t, result)
	return h
}

func instantiate(t testing.TB, d *Device, g gpubackend.Graph, flags uint64) gpubackend.GraphExec {
	t.Helper()
	e, result := d.GraphInstantiateWithFlags(g, flags)
	ok(t, result)
	return e
}

func empty() *gpubackend.Node { return &gpubackend.Node{Type: gpubackend.NodeEmpty} }

// fillNode sets n bytes.
func fillNode(dst, value, n uint64) *gpubackend.Node {
	return &gpubackend.Node{
		Type: gpubackend.NodeMemset,
		Fill: gpubackend.Fill{Dst: dst, Value: value, Element: 1, Width: n, Height: 1},
	}
}

func copyNode(dst, src, n uint64) *gpubackend.Node {
	return &gpubackend.Node{
		Type: gpubackend.NodeMemcpy,
		Copy: gpubackend.Box{Dst: dst, Src: src, Width: n, Height: 1, Depth: 1},
	}
}

// TestGraphOfCopiesAgreesWithOneByOne builds graphs of random copies and fills, in which only those
// come after one another that touch the same memory, and compares with doing them in the order in
// which they were added.
func TestGraphOfCopiesAgreesWithOneByOne(t *testing.T) {
	const blocks, size = 8, 4096
	d := newDevice(t, Options{})
	base := alloc(t, d, blocks*size)
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 4))
		model := make([]byte, blocks*size)
		for i := range model {
			model[i] = byte(random.Uint32())
		}
		ok(t, d.CopyIn(base, model, 0))
		g := newGraph(t, d)
		var nodes []gpubackend.GraphNode
		var reads, writes []int
		for range 40 {
			to, from := random.IntN(blocks), random.IntN(blocks)
			what := copyNode(base+uint64(to)*size, base+uint64(from)*size, size)
			if to == from {
				what, from = fillNode(base+uint64(to)*size, random.Uint64()&0xff, size), -1
			}
			var after []gpubackend.GraphNode
			for k := range nodes {
				if writes[k] == to || writes[k] == from || reads[k] == to {
					after = append(after, nodes[k])
				}
			}
			nodes = append(nodes, addNode(t, d, g, what, after...))
			reads, writes = append(reads, from), append(writes, to)
			dst := model[to*size : (to+1)*size]
			if from < 0 {
				copy(dst, bytes.Repeat([]byte{byte(what.Fill.Value)}, size))
			} else {
				copy(dst, model[from*size:])
			}
		}
		e := instantiate(t, d, g, 0)
		ok(t, d.GraphLaunch(e, 0))
		synchronize(t, d)
		if got := read(t, d, base, blocks*size); !bytes.Equal(got, model) {
			t.Fatalf("seed %d: memory differs", seed)
		}
		ok(t, d.GraphExecDestroy(e))
		ok(t, d.GraphDestroy(g))
	}
}

func TestGraphEdges(t *testing.T) {
	d := newDevice(t, Options{})
	g, other := newGraph(t, d), newGraph(t, d)
	a := addNode(t, d, g, empty())
	b := addNode(t, d, g, empty(), a)
	c := addNode(t, d, g, empty())
	foreign := addNode(t, d, other, empty())
	one := func(n gpubackend.GraphNode) []gpubackend.GraphNode { return []gpubackend.GraphNode{n} }
	for _, x := range []struct {
		name   string
		result gpubackend.Result
		want   gpubackend.Result
	}{
		{"there already", d.GraphAddDependencies(g, one(a), one(b), nil), gpubackend.InvalidValue},
		{"of itself", d.GraphAddDependencies(g, one(a), one(a), nil), gpubackend.InvalidValue},
		{"of another graph", d.GraphAddDependencies(g, one(foreign), one(b), nil),
			gpubackend.InvalidValue},
		{"uneven", d.GraphAddDependencies(g, one(a), nil, nil), gpubackend.InvalidValue},
		{"twice", d.GraphAddDependencies(g, slices.Repeat(one(b), 2), slices.Repeat(one(c), 2),
			nil), gpubackend.InvalidValue},
		{"with data", d.GraphAddDependencies(g, one(b), one(c), []byte{0, 0, 1, 0, 0, 0, 0, 0}),
			gpubackend.NotSupported},
		{"new", d.GraphAddDependencies(g, one(b), one(c), make([]byte, 8)), gpubackend.Success},
		{"not there", d.GraphRemoveDependencies(g, one(a), one(c), nil), gpubackend.InvalidValue},
		{"removed", d.GraphRemoveDependencies(g, one(a), one(b), nil), gpubackend.Success},
		{"cycle", d.GraphAddDependencies(g, one(c), one(b), nil), gpubackend.Success},
	} {
		if x.result != x.want {
			t.Errorf("%s: result %d, want %d", x.name, x.result, x.want)
		}
	}
	from, to, result := d.GraphGetEdges(g, nil)
	ok(t, result)
	if !slices.Equal(from, []gpubackend.GraphNode{c, b}) ||
		!slices.Equal(to, []gpubackend.GraphNode{b, c}) {
		t.Errorf("edges from %v to %v", from, to)
	}
	_, _, status, result := d.GraphInstantiate(g, 0, 0)
	if status != cudaabi.GraphInstantiateInvalidStructure || result != gpubackend.InvalidValue {
		t.Errorf("a cycle: status %d, result %d", status, result)
	}
	ok(t, d.GraphDestroyNode(b))
	roots, result := d.GraphGetRootNodes(g)
	ok(t, result)
	if !slices.Equal(roots, []gpubackend.GraphNode{a, c}) {
		t.Errorf("roots %v", roots)
	}
	want(t, d.GraphDestroyNode(b), gpubackend.InvalidValue)
	ok(t, d.GraphDestroy(g))
	ok(t, d.GraphDestroy(other))
	want(t, d.GraphDestroy(g), gpubackend.InvalidValue)
	if d.Graphs.Held().Bytes != 0 {
		t.Errorf("%d bytes are still accounted for", d.Graphs.Held().Bytes)
	}
}

func TestGraphNodeChecks(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	a := alloc(t, d, 4096)
	m := loadFile(t, d, "testdata/small.ptx")
	scale := getFunction(t, d, m, "scale")
	kernel := func(threads uint32, p []byte) *gpubackend.Node {
		return &gpubackend.Node{Type: gpubackend.NodeKernel, Launch: gpubackend.Launch{
			Function: scale, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1},
			Parameters: p,
		}}
	}
	wide := fillNode(a, 0, 4)
	wide.Fill.Element = 3
	for _, x := range []struct {
		name string
		node *gpubackend.Node
		want gpubackend.Result
	}{
		{"fill", fillNode(a, 1, 4096), gpubackend.Success},
		{"fill beyond the end", fillNode(a, 1, 1<<30), gpubackend.InvalidValue},
		{"fill of nothing", fillNode(a, 1, 0), gpubackend.InvalidValue},
		{"fill of odd elements", wide, gpubackend.InvalidValue},
		{"copy", copyNode(a, a+8, 8), gpubackend.Success},
		{"copy from nowhere", copyNode(a, 5, 8), gpubackend.InvalidValue},
		{"copy of nothing", copyNode(a, a, 0), gpubackend.InvalidValue},
		{"kernel", kernel(1, append(params(a), 4)), gpubackend.Success},
		{"kernel of many threads", kernel(5000, append(params(a), 4)), gpubackend.InvalidValue},
		{"kernel without parameters", kernel(1, nil), gpubackend.InvalidValue},
		{"kernel of no function", &gpubackend.Node{Type: gpubackend.NodeKernel},
			gpubackend.InvalidHandle},
		{"event", &gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: newEvent(t, d)},
			gpubackend.Success},
		{"no event", &gpubackend.Node{Type: gpubackend.NodeEventWait}, gpubackend.InvalidHandle},
		{"no graph", &gpubackend.Node{Type: gpubackend.NodeGraph}, gpubackend.InvalidValue},
		{"itself moved", &gpubackend.Node{Type: gpubackend.NodeGraph, Child: g, Moved: true},
			gpubackend.InvalidValue},
		{"free of no graph's memory", &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: a},
			gpubackend.InvalidValue},
		{"allocation of no pool", &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: 4},
			gpubackend.InvalidValue},
		{"operations on memory", &gpubackend.Node{Type: gpubackend.NodeMemOps}, gpubackend.Success},
		{"operations with flags", &gpubackend.Node{Type: gpubackend.NodeMemOps, Flags: 1},
			gpubackend.InvalidValue},
		{"condition without a handle",
			&gpubackend.Node{Type: gpubackend.NodeConditional, Bodies: 1}, gpubackend.InvalidValue},
		{"unknown", &gpubackend.Node{Type: 99}, gpubackend.NotSupported},
	} {
		before := d.Graphs.Held().Bytes
		if _, _, _, result := d.GraphAddNode(g, nil, nil, x.node); result != x.want {
			t.Errorf("%s: result %d, want %d", x.name, result, x.want)
		}
		if x.want != gpubackend.Success && d.Graphs.Held().Bytes != before {
			t.Errorf("%s: %d bytes are accounted for", x.name, d.Graphs.Held().Bytes-before)
		}
	}
}

func TestGraphExecUpdate(t *testing.T) {
	d := newDevice(t, Options{})
	a := alloc(t, d, 64)
	build := func(nodes ...*gpubackend.Node) gpubackend.Graph {
		g := newGraph(t, d)
		var after []gpubackend.GraphNode
		for _, n := range nodes {
			after = []gpubackend.GraphNode{addNode(t, d, g, n, after...)}
		}
		return g
	}
	apart := newGraph(t, d)
	addNode(t, d, apart, fillNode(a, 9, 8))
	addNode(t, d, apart, empty())
	rows := fillNode(a, 9, 8)
	rows.Fill.Height, rows.Fill.Pitch = 2, 32
	e := instantiate(t, d, build(fillNode(a, 1, 8), empty()), 0)
	for _, x := range []struct {
		name  string
		graph gpubackend.Graph
		why   uint64
	}{
		{"same", build(fillNode(a, 2, 8), empty()), cudaabi.GraphExecUpdateSuccess},
		{"longer", build(fillNode(a, 9, 8), empty(), empty()),
			cudaabi.GraphExecUpdateErrorTopologyChanged},
		{"other edges", apart, cudaabi.GraphExecUpdateErrorTopologyChanged},
		{"other type", build(copyNode(a, a+8, 8), empty()),
			cudaabi.GraphExecUpdateErrorNodeTypeChanged},
		{"rows", build(rows, empty()), cudaabi.GraphExecUpdateErrorParametersChanged},
		{"other place", build(fillNode(a+16, 3, 16), empty()), cudaabi.GraphExecUpdateSuccess},
	} {
		_, _, why, result := d.GraphExecUpdate(x.graph, e)
		if why != x.why ||
			(result == gpubackend.Success) != (why == cudaabi.GraphExecUpdateSuccess) {
			t.Errorf("%s: %d, result %d", x.name, why, result)
		}
		ok(t, d.MemsetD8Async(a, 0, 64, 0))
		ok(t, d.GraphLaunch(e, 0))
		ok(t, d.GraphDestroy(x.graph))
	}
	synchronize(t, d)
	if got := read(t, d, a, 64); !bytes.Equal(got[16:32], bytes.Repeat([]byte{3}, 16)) ||
		got[0] != 0 {
		t.Errorf("got %v", got)
	}
}
