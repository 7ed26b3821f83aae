// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// conditional is a graph with conditional nodes, and kernels that set conditions.
type conditional struct {
	*Device
	t             *testing.T
	g             gpubackend.Graph
	choose, count gpubackend.Function
	p             uint64 // 64 bytes of zeros
}

func newConditional(t *testing.T) *conditional {
	t.Helper()
	d := newDevice(t, Options{})
	m := loadFile(t, d, "testdata/conditional.ptx")
	c := &conditional{d, t, newGraph(t, d), getFunction(t, d, m, "choose"),
		getFunction(t, d, m, "count"), alloc(t, d, 64)}
	ok(t, d.MemsetD8Async(c.p, 0, 64, 0))
	return c
}

func (c *conditional) handle(value, flags uint64) uint64 {
	c.t.Helper()
	h, result := c.GraphConditionalHandle(c.g, value, flags)
	ok(c.t, result)
	return h
}

// kernel is a node of one of the kernels.
func (c *conditional) kernel(f gpubackend.Function, handle, p uint64) *gpubackend.Node {
	return &gpubackend.Node{Type: gpubackend.NodeKernel, Launch: gpubackend.Launch{
		Function: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Parameters: params(handle, p),
	}}
}

// node adds a conditional node.
func (c *conditional) node(
	g gpubackend.Graph, handle, kind, n uint64, after ...gpubackend.GraphNode,
) (
	gpubackend.GraphNode, []gpubackend.Graph,
) {
	c.t.Helper()
	what := &gpubackend.Node{Type: gpubackend.NodeConditional, Handle: handle, Kind: kind,
		Bodies: n}
	node, _, bodies, result := c.GraphAddNode(g, after, nil, what)
	ok(c.t, result)
	if len(bodies) != int(n) {
		c.t.Fatalf("%d bodies, want %d", len(bodies), n)
	}
	return node, bodies
}

// run launches a graph on words at p and returns what they are then.
func (c *conditional) run(e gpubackend.GraphExec, at ...uint32) []byte {
	c.t.Helper()
	ok(c.t, c.CopyIn(c.p, words(at...), 0))
	ok(c.t, c.GraphLaunch(e, 0))
	synchronize(c.t, c.Device)
	return read(c.t, c.Device, c.p, uint64(4*len(at)))
}

// end checks that nothing of the graph is left.
func (c *conditional) end() {
	c.t.Helper()
	ok(c.t, c.GraphDestroy(c.g))
	if c.Graphs.Held().Conditions != 0 || c.Graphs.Held().Bytes != 0 {
		c.t.Errorf("%d conditions and %d bytes are left", c.Graphs.Held().Conditions,
			c.Graphs.Held().Bytes)
	}
}

func TestConditionalIfAndSwitch(t *testing.T) {
	for _, x := range []struct {
		name         string
		kind, bodies uint64
		chosen       []int // by value; -1: none
	}{
		{"if", cudaabi.GraphCondIf, 1, []int{-1, 0, 0}},
		{"if and else", cudaabi.GraphCondIf, 2, []int{1, 0, 0}},
		{"switch", cudaabi.GraphCondSwitch, 3, []int{0, 1, 2, -1}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := newConditional(t)
			h := c.handle(0, 0)
			set := addNode(t, c.Device, c.g, c.kernel(c.choose, h, c.p))
			node, bodies := c.node(c.g, h, x.kind, x.bodies, set)
			for i, b := range bodies {
				first := addNode(t, c.Device, b, fillNode(c.p+8, uint64(i+1), 4))
				addNode(t, c.Device, b, copyNode(c.p+12, c.p+8, 4), first)
			}
			addNode(t, c.Device, c.g, copyNode(c.p+16, c.p+12, 4), node)
			e := instantiate(t, c.Device, c.g, 0)
			for value, chosen := range x.chosen {
				v := uint32(chosen+1) * 0x01010101
				if got, want := c.run(e, uint32(value), 0, 0, 0, 9),
					words(uint32(value), 0, v, v, v); !bytes.Equal(got, want) {
					t.Errorf("value %d: got %v, want %v", value, got, want)
				}
			}
			ok(t, c.GraphExecDestroy(e))
			c.end()
		})
	}
}

func TestConditionalLoops(t *testing.T) {
	c := newConditional(t)
	outer, inner := c.handle(1, cudaabi.GraphCondAssignDefault),
		c.handle(1, cudaabi.GraphCondAssignDefault)
	// p[0] counts up to p[1]; each time p[2] counts from 0 up to p[3], which p[4] counts in all.
	_, bodies := c.node(c.g, outer, cudaabi.GraphCondWhile, 1)
	zero := addNode(t, c.Device, bodies[0], fillNode(c.p+8, 0, 4))
	loop, nested := c.node(bodies[0], inner, cudaabi.GraphCondWhile, 1, zero)
	again := addNode(t, c.Device, bodies[0], c.kernel(c.count, outer, c.p), loop)
	addNode(t, c.Device, bodies[0], c.kernel(c.choose, inner, c.p+4), again)
	first := addNode(t, c.Device, nested[0], c.kernel(c.count, inner, c.p+16))
	addNode(t, c.Device, nested[0], c.kernel(c.count, inner, c.p+8), first)
	e := instantiate(t, c.Device, c.g, 0)
	ok(t, c.GraphDestroy(c.g))
	for range 3 {
		if got, want := c.run(e, 0, 5, 0, 7, 0, 0),
			words(5, 5, 7, 7, 35, 0); !bytes.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	ok(t, c.CopyIn(c.p, words(0, 100, 0, 7, 0, 0), 0))
	ok(t, c.GraphLaunch(e, 0))
	ok(t, c.GraphExecDestroy(e)) // the launch goes on
	synchronize(t, c.Device)
	if got := read(t, c.Device, c.p+16, 4); !bytes.Equal(got, words(700)) {
		t.Errorf("a launch that outlives its graph counted %v", got)
	}
	if c.Graphs.Held().Conditions != 0 || c.Graphs.Held().Bytes != 0 {
		t.Errorf("%d conditions and %d bytes are left", c.Graphs.Held().Conditions,
			c.Graphs.Held().Bytes)
	}
}

// TestConditionalEndsWithItsContext lets a loop without end fail, and another be reset.
func TestConditionalEndsWithItsContext(t *testing.T) {
	for _, fails := range []bool{true, false} {
		c := newConditional(t)
		h := c.handle(1, cudaabi.GraphCondAssignDefault)
		_, bodies := c.node(c.g, h, cudaabi.GraphCondWhile, 1)
		at := c.p
		if fails {
			at = 4096
		}
		count := addNode(t, c.Device, bodies[0], c.kernel(c.count, h, at))
		addNode(t, c.Device, bodies[0], fillNode(c.p, 0, 4), count)
		e := instantiate(t, c.Device, c.g, 0)
		if fails {
			ok(t, c.GraphLaunch(e, 0))
			want(t, wait(t, c.ContextQuery), gpubackend.IllegalAddress)
			ok(t, c.DevicePrimaryCtxReset(0))
		} else {
			ok(t, c.CopyIn(c.p, words(0, 3), 0))
			ok(t, c.GraphLaunch(e, 0))
		}
		c.Close()
	}
}

func TestConditionalChecks(t *testing.T) {
	c := newConditional(t)
	h := c.handle(0, 0)
	other := newGraph(t, c.Device)
	_, result := c.GraphConditionalHandle(c.g, 0, 2)
	want(t, result, gpubackend.InvalidValue)
	if _, _, status, result := c.GraphInstantiate(c.g,
		0, 0); status != cudaabi.GraphInstantiateConditionalHandleUnused ||
		result != gpubackend.InvalidValue {
		t.Errorf("unused handle: status %d, result %d", status, result)
	}
	for _, x := range []struct {
		g            gpubackend.Graph
		h            uint64
		kind, bodies uint64
	}{
		{c.g, h + 1, cudaabi.GraphCondIf, 1}, {c.g, h, cudaabi.GraphCondIf, 0},
		{c.g, h, cudaabi.GraphCondIf, 3}, {c.g, h, cudaabi.GraphCondWhile, 2},
		{c.g, h, cudaabi.GraphCondSwitch, cudaabi.MaxConditionalBodies + 1}, {c.g, h, 3, 1},
		{other, h, cudaabi.GraphCondIf, 1},
	} {
		charged := c.Graphs.Held().Bytes
		_, _, _, result := c.GraphAddNode(x.g, nil, nil, &gpubackend.Node{
			Type: gpubackend.NodeConditional, Handle: x.h, Kind: x.kind, Bodies: x.bodies,
		})
		if result != gpubackend.InvalidValue || c.Graphs.Held().Bytes != charged {
			t.Errorf("%+v: result %d, %d bytes accounted for", x, result,
				c.Graphs.Held().Bytes-charged)
		}
	}
	node, bodies := c.node(c.g, h, cudaabi.GraphCondIf, 1)
	_, _, _, result = c.GraphAddNode(c.g, nil, nil,
		&gpubackend.Node{Type: gpubackend.NodeConditional, Handle: h, Bodies: 1})
	want(t, result, gpubackend.InvalidValue) // a second node
	_, result = c.GraphClone(c.g)
	want(t, result, gpubackend.NotSupported)
	_, _, _, result = c.GraphAddNode(other, nil, nil,
		&gpubackend.Node{Type: gpubackend.NodeGraph, Child: c.g})
	want(t, result, gpubackend.NotSupported)
	want(t, c.GraphDestroy(bodies[0]), gpubackend.InvalidValue)
	addNode(t, c.Device, bodies[0],
		&gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: newEvent(t, c.Device)})
	if _, _, status, result := c.GraphInstantiate(c.g,
		0, 0); status != cudaabi.GraphInstantiateInvalidStructure ||
		result != gpubackend.InvalidValue {
		t.Errorf("event in a body: status %d, result %d", status, result)
	}
	ok(t, c.GraphDestroyNode(node))
	c.node(c.g, h, cudaabi.GraphCondWhile, 1) // the handle is free again
	ok(t, c.GraphDestroy(other))
	c.end()
	// A kernel with a handle of no graph.
	l := c.kernel(c.choose, h, c.p).Launch
	ok(t, c.Launch(&l))
	want(t, wait(t, c.ContextQuery), gpubackend.LaunchFailed)
}

// TestConditionalUpdate changes an executable graph to another of the same form, whose kernels have
// another handle.
func TestConditionalUpdate(t *testing.T) {
	c := newConditional(t)
	build := func(value uint64) gpubackend.Graph {
		c.g = newGraph(t, c.Device)
		h := c.handle(0, cudaabi.GraphCondAssignDefault)
		set := addNode(t, c.Device, c.g, c.kernel(c.choose, h, c.p))
		_, bodies := c.node(c.g, h, cudaabi.GraphCondIf, 1, set)
		addNode(t, c.Device, bodies[0], fillNode(c.p+4, value, 4))
		return c.g
	}
	first, second := build(1), build(2)
	e := instantiate(t, c.Device, first, 0)
	_, _, why, result := c.GraphExecUpdate(second, e)
	if why != cudaabi.GraphExecUpdateSuccess || result != gpubackend.Success {
		t.Fatalf("update: %d, result %d", why, result)
	}
	ok(t, c.GraphDestroy(second))
	if got := c.run(e, 1, 0); !bytes.Equal(got, words(1, 0x02020202)) {
		t.Errorf("got %v", got)
	}
	ok(t, c.GraphExecDestroy(e))
	ok(t, c.GraphDestroy(first))
	if c.Graphs.Held().Conditions != 0 {
		t.Errorf("%d conditions are left", c.Graphs.Held().Conditions)
	}
}
