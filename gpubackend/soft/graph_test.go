// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
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

// allocNode is an allocation.
func allocNode(bytes uint64) *gpubackend.Node {
	n := &gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: bytes,
		Pool: make([]byte, cudaabi.MemPoolPropsSize)}
	p := cudaabi.MemPoolProps(n.Pool)
	p.SetAllocType(cudaabi.MemAllocationPinned)
	p.Location().SetType(cudaabi.MemLocationDevice)
	return n
}

func TestGraphMemory(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	n, address, _, result := d.GraphAddNode(g, nil, nil, allocNode(1<<20))
	ok(t, result)
	addNode(t, d, g, fillNode(address, 7, 1<<20), n)
	_, result = d.GraphClone(g)
	want(t, result, gpubackend.NotSupported)
	want(t, d.GraphDestroyNode(n), gpubackend.NotSupported)
	want(t, d.MemFree(address), gpubackend.InvalidValue)
	e := instantiate(t, d, g, 0)
	_, result = d.GraphInstantiateWithFlags(g, 0)
	want(t, result, gpubackend.NotSupported)
	ok(t, d.GraphLaunch(e, 0))
	want(t, d.GraphLaunch(e, 0), gpubackend.InvalidValue)
	if used, result := d.GraphMemory(0, cudaabi.GraphMemAttrUsedMemCurrent); used != 1<<20 ||
		result != gpubackend.Success {
		t.Errorf("%d bytes used, result %d", used, result)
	}
	ok(t, d.MemFree(address))
	want(t, d.MemFree(address), gpubackend.InvalidValue)
	ok(t, d.GraphLaunch(e, 0))
	ok(t, d.GraphExecDestroy(e))
	ok(t, d.GraphDestroy(g))
	synchronize(t, d)
	if got := read(t, d, address, 4); got[3] != 7 { // stays until it is freed
		t.Errorf("got %v", got)
	}
	ok(t, d.MemFree(address))
	synchronize(t, d)
	if free, total, _ := d.MemGetInfo(); free != total {
		t.Errorf("%d of %d bytes free", free, total)
	}
	for i := range 4 {
		if v, _ := d.GraphMemory(0, uint64(i)); v != uint64(i%2)<<20 {
			t.Errorf("attribute %d: %d", i, v)
		}
	}
	ok(t, d.GraphMemorySet(0, 1, 0))
	if high, _ := d.GraphMemory(0, 1); high != 0 {
		t.Errorf("high-water mark %d", high)
	}
	want(t, d.GraphMemorySet(0, 0, 0), gpubackend.InvalidValue)
	want(t, d.GraphMemorySet(0, 4, 0), gpubackend.InvalidValue)
}

func TestGraphMemoryIsFreedByLaunches(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	n, address, _, result := d.GraphAddNode(g, nil, nil, allocNode(4096))
	ok(t, result)
	e := instantiate(t, d, g, cudaabi.GraphInstantiateFlagAutoFreeOnLaunch)
	for range 3 {
		ok(t, d.GraphLaunch(e, 0))
	}
	ok(t, d.GraphExecDestroy(e))
	freeing := newGraph(t, d)
	addNode(t, d, freeing, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address})
	f := instantiate(t, d, freeing, 0)
	ok(t, d.GraphLaunch(f, 0))
	want(t, d.GraphLaunch(f, 0), gpubackend.InvalidValue)
	addNode(t, d, g, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address}, n)
	e = instantiate(t, d, g, 0)
	for range 3 {
		ok(t, d.GraphLaunch(e, 0))
	}
	ok(t, d.DevicePrimaryCtxReset(0))
	want(t, d.GraphLaunch(e, 0), gpubackend.InvalidValue)
	if held := d.Graphs.Held(); held.Pieces != 0 || held.Reserved != 0 {
		t.Errorf("%d pieces are left", held.Pieces)
	}
}

// fill makes a graph that takes all that graphs may.
func fill(t *testing.T, d *Device) gpubackend.Graph {
	t.Helper()
	g := newGraph(t, d)
	bytes := make([]byte, 64<<20) // counted whatever the node is
	for {
		left := graphs.MaxBytes - d.Graphs.Held().Bytes
		if left <= 0 {
			return g
		}
		n := empty()
		n.Access = bytes[:min(len(bytes), max(left-graphs.NodeBytes, 0))]
		addNode(t, d, g, n)
	}
}

func TestGraphsAreBounded(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	a := addNode(t, d, g, empty())
	b := addNode(t, d, g, empty())
	s := newStream(t, d, 0)
	e := instantiate(t, d, g, 0)
	full := fill(t, d)
	_, _, _, added := d.GraphAddNode(g, nil, nil, empty())
	_, created := d.GraphCreate(0)
	_, cloned := d.GraphClone(g)
	_, instantiated := d.GraphInstantiateWithFlags(g, 0)
	captured := d.StreamBeginCapture(s, 0)
	joined := d.GraphAddDependencies(g, []gpubackend.GraphNode{a}, []gpubackend.GraphNode{b}, nil)
	for i, result := range []gpubackend.Result{added, created, cloned, instantiated, captured,
		joined} {
		if result != gpubackend.OutOfMemory {
			t.Errorf("call %d: result %d", i, result)
		}
	}
	ok(t, d.GraphDestroy(full))
	ok(t, d.GraphLaunch(e, 0))
	// A graph that contains itself twice, again and again, doesn't get far.
	result := gpubackend.Success
	for n := 0; result == gpubackend.Success; n++ {
		if n > 64 {
			t.Fatal("no end of it")
		}
		for range 2 {
			if result == gpubackend.Success {
				_, _, _, result = d.GraphAddNode(g, nil, nil,
					&gpubackend.Node{Type: gpubackend.NodeGraph, Child: g})
			}
		}
	}
	want(t, result, gpubackend.OutOfMemory)
	_, result = d.GraphInstantiateWithFlags(g, 0)
	want(t, result, gpubackend.OutOfMemory)
	ok(t, d.GraphExecDestroy(e))
	ok(t, d.GraphDestroy(g))
	if d.Graphs.Held().Bytes != 0 || d.handles.Len() != 2 {
		t.Errorf("%d bytes are accounted for, %d handles", d.Graphs.Held().Bytes, d.handles.Len())
	}
}

// checkValuesOfAttributes sets attributes of a node as driver 580 takes them, and reads them where
// they are unset.
func checkValuesOfAttributes(t *testing.T, d *Device, n gpubackend.GraphNode) {
	const (
		good = gpubackend.Success
		bad  = gpubackend.InvalidValue
	)
	for _, x := range []struct {
		id          uint64
		unset       gpubackend.Result
		told        uint16
		zero, three gpubackend.Result
	}{
		{3, bad, 0, bad, bad}, {6, bad, 0, bad, bad},
		{9, good, 256, good, good}, {10, good, 0, good, bad}, {11, bad, 0, bad, bad},
		{13, good, 0, good, bad},
		{14, good, 0, good, good}, {16, bad, 0, good, bad},
	} {
		value := make([]byte, cudaabi.LaunchAttributeValueSize)
		want(t, d.GraphKernelNodeGetAttribute(n, x.id, value), x.unset)
		if got := binary.LittleEndian.Uint16(value); got != x.told {
			t.Errorf("attribute %d: %d, want %d", x.id, got, x.told)
		}
		clear(value)
		want(t, d.GraphKernelNodeSetAttribute(n, x.id, value), x.zero)
		value[0] = 3
		want(t, d.GraphKernelNodeSetAttribute(n, x.id, value), x.three)
	}
}

func TestKernelNodeAttributes(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	a := alloc(t, d, 4096)
	kernel := &gpubackend.Node{Type: gpubackend.NodeKernel, Launch: gpubackend.Launch{
		Function: getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "scale"),
		Grid:     [3]uint32{1, 1, 1},
		Block:    [3]uint32{8, 1, 1}, Parameters: append(params(a), 4),
	}}
	n, m, none := addNode(t, d, g, kernel), addNode(t, d, g, kernel), addNode(t, d, g, empty())
	value, got := make([]byte, cudaabi.LaunchAttributeValueSize),
		make([]byte, cudaabi.LaunchAttributeValueSize)
	value[0] = 1
	for _, x := range []struct {
		name string
		node gpubackend.GraphNode
		id   uint64
		want gpubackend.Result
	}{
		{"cooperative", n, cudaabi.LaunchAttributeCooperative, gpubackend.Success},
		{"priority", n, 8, gpubackend.Success},
		{"cooperative again", n, cudaabi.LaunchAttributeCooperative, gpubackend.Success},
		{"event", n, cudaabi.LaunchAttributeProgrammaticEvent, gpubackend.InvalidValue},
		{"unknown", n, 99, gpubackend.InvalidValue},
		{"of no kernel", none, 8, gpubackend.InvalidValue},
	} {
		if result := d.GraphKernelNodeSetAttribute(x.node, x.id, value); result != x.want {
			t.Errorf("%s: result %d, want %d", x.name, result, x.want)
		}
	}
	value[0] = 2
	want(t, d.GraphKernelNodeSetAttribute(n, cudaabi.LaunchAttributeClusterDimension, value),
		gpubackend.InvalidClusterSize)
	value[4], value[8] = 1, 1
	want(t, d.GraphKernelNodeSetAttribute(n, cudaabi.LaunchAttributeClusterDimension, value),
		gpubackend.NotSupported)
	value[4], value[8] = 0, 0
	want(t, d.GraphKernelNodeSetAttribute(n, 8, value[1:]), gpubackend.InvalidValue)
	ok(t, d.GraphKernelNodeCopyAttributes(m, n))
	for _, id := range []uint64{cudaabi.LaunchAttributeCooperative, 8, 1} {
		ok(t, d.GraphKernelNodeGetAttribute(m, id, got))
		if (got[0] == 1) != (id != 1) {
			t.Errorf("attribute %d: %d", id, got[0])
		}
	}
	checkValuesOfAttributes(t, d, addNode(t, d, g, kernel))
	// Other parameters leave them as they are.
	ok(t, d.GraphNodeSet(m, kernel))
	if what, _ := d.GraphNodeGet(m); len(what.Launch.Attributes) != 2*cudaabi.LaunchAttributeSize {
		t.Errorf("%d bytes of attributes", len(what.Launch.Attributes))
	}
	clone, result := d.GraphClone(g)
	ok(t, result)
	found, result := d.GraphNodeFindInClone(m, clone)
	ok(t, result)
	if kind, _ := d.GraphNodeGetType(found); kind != uint64(gpubackend.NodeKernel) {
		t.Errorf("type %d", kind)
	}
	want(t, d.GraphKernelNodeGetAttribute(found, cudaabi.LaunchAttributeProgrammaticEvent, got),
		gpubackend.InvalidValue)
	_, result = d.GraphNodeFindInClone(found, g)
	want(t, result, gpubackend.InvalidValue)
}
