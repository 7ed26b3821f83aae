// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
)

// partsRig is a device whose graphs have conditions and memory.
//
// The graph choosing has a node with two bodies. The first one fills a word at 4, of which the
// executable graph has nothing, and has another condition, for its node that fills one at 8. The
// other body fills a word at 12. Of the graph orphan only an executable graph is left, which fills
// the word at 16.
//
// The graph making allocates kept, which is allocated now, and idle, which is not. The graph that
// allocated lost is gone, and its executable one too.
type partsRig struct {
	*Device
	at               uint64
	choosing, making gpubackend.Graph
	node             gpubackend.GraphNode // the one with bodies
	bodies           []gpubackend.Graph
	off              gpubackend.GraphNode
	outer, nested    uint64 // conditions
	orphans          uint64
	execs            []gpubackend.GraphExec // choosing, orphan, making
	kept, idle, lost uint64
	states           *gpubackend.GraphStates
}

func (r *partsRig) condition(
	t *testing.T, g gpubackend.Graph, value, flags, kind, bodies uint64,
) (h uint64, n gpubackend.GraphNode, in []gpubackend.Graph) {
	t.Helper()
	h, result := r.GraphConditionalHandle(g, value, flags)
	ok(t, result)
	n, _, in, result = r.GraphAddNode(g, nil, nil, &gpubackend.Node{
		Type: gpubackend.NodeConditional, Handle: h, Kind: kind, Bodies: bodies})
	ok(t, result)
	return h, n, in
}

func newPartsRig(t *testing.T) *partsRig {
	t.Helper()
	r := &partsRig{Device: newDevice(t, Options{})}
	primary(t, r.Device)
	r.at = alloc(t, r.Device, 64)
	var in []gpubackend.Graph
	r.choosing = newGraph(t, r.Device)
	r.outer, r.node, r.bodies = r.condition(t, r.choosing, 1, 0, cudaabi.GraphCondIf, 2)
	r.off = addNode(t, r.Device, r.bodies[0], fillNode(r.at+4, 1, 4))
	r.nested, _, in = r.condition(t, r.bodies[0], 0, cudaabi.GraphCondAssignDefault,
		cudaabi.GraphCondSwitch, 1)
	addNode(t, r.Device, in[0], fillNode(r.at+8, 2, 4))
	addNode(t, r.Device, r.bodies[1], fillNode(r.at+12, 3, 4))
	orphan := newGraph(t, r.Device)
	r.orphans, _, in = r.condition(t, orphan, 1, 0, cudaabi.GraphCondIf, 1)
	addNode(t, r.Device, in[0], fillNode(r.at+16, 4, 4))
	r.execs = []gpubackend.GraphExec{instantiate(t, r.Device, r.choosing, 0),
		instantiate(t, r.Device, orphan, 0)}
	ok(t, r.GraphDestroy(orphan))
	ok(t, r.GraphNodeSetEnabled(r.execs[0], r.off, 0))
	r.allocate(t)
	synchronize(t, r.Device)
	var err error
	r.states, err = r.SaveGraphs([]gpubackend.Graph{r.choosing, r.making}, r.execs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *partsRig) allocate(t *testing.T) {
	t.Helper()
	lost := newGraph(t, r.Device)
	_, at, _, result := r.GraphAddNode(lost, nil, nil, allocNode(10<<20))
	ok(t, result)
	addNode(t, r.Device, lost, fillNode(at, 5, 10<<20))
	e := instantiate(t, r.Device, lost, 0)
	ok(t, r.GraphLaunch(e, 0))
	ok(t, r.GraphExecDestroy(e))
	ok(t, r.GraphDestroy(lost))
	r.making, r.lost = newGraph(t, r.Device), at
	_, r.kept, _, result = r.GraphAddNode(r.making, nil, nil, allocNode(4096))
	ok(t, result)
	n, at, _, result := r.GraphAddNode(r.making, nil, nil, allocNode(3<<20))
	ok(t, result)
	addNode(t, r.Device, r.making, &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: at}, n)
	r.idle = at
	r.execs = append(r.execs, instantiate(t, r.Device, r.making, 0))
	ok(t, r.GraphLaunch(r.execs[2], 0))
	ok(t, r.MemsetD8Async(r.kept, 6, 4096, 0))
}

// use is all that is told of the memory of graphs.
func (r *partsRig) use(t *testing.T) (use [4]uint64) {
	t.Helper()
	for i := range use {
		var result gpubackend.Result
		use[i], result = r.GraphMemory(0, uint64(i))
		ok(t, result)
	}
	return use
}

// again is the device that takes this one's place.
func (r *partsRig) again(t *testing.T) (other *partsRig, result gpubackend.Result) {
	t.Helper()
	copied := *r
	o, m := r.options, r.moveAway(t)
	copied.Device = again(t, o, m)
	ok(t, copied.TakeAllocation(gpubackend.Allocation{Address: r.at, Bytes: 64}))
	if result := copied.RestoreGraphs(r.states); result != gpubackend.Success {
		return nil, result
	}
	ok(t, copied.LoadPieces(m.pieces, m.image))
	if err := copied.LayoutRestored(); err != nil {
		t.Fatal(err)
	}
	return &copied, gpubackend.Success
}

// launch launches one of the executable graphs. It returns the five words behind the first one.
func (r *partsRig) launch(t *testing.T, e int) []byte {
	t.Helper()
	ok(t, r.MemsetD8Async(r.at, 0, 64, 0))
	ok(t, r.GraphLaunch(r.states.Execs[e].Exec, 0))
	synchronize(t, r.Device)
	return read(t, r.Device, r.at+4, 16)
}

// TestSavedConditions: another device has the same conditions, by the same handles, with their
// values.
func TestSavedConditions(t *testing.T) {
	r := newPartsRig(t)
	if !r.SetCondition(r.orphans, 0) {
		t.Fatal("there is no such condition")
	}
	var err error
	if r.states, err = r.SaveGraphs([]gpubackend.Graph{r.choosing, r.making},
		r.execs); err != nil {
		t.Fatal(err)
	}
	d, result := r.again(t)
	ok(t, result)
	const a, b, c, e = 0x01010101, 0x02020202, 0x03030303, 0x04040404
	for _, x := range []struct {
		condition uint64
		value     uint32
		exec      int
		want      []byte
	}{
		{0, 0, 1, words(0, 0, 0, 0)}, // it had another value than the first
		{r.orphans, 1, 1, words(0, 0, 0, e)},
		{0, 0, 0, words(0, b, 0, 0)},
		{r.nested, 1, 0, words(0, b, 0, 0)}, // each launch begins with 0
		{r.outer, 0, 0, words(0, 0, c, 0)},
		{0, 0, 0, words(0, 0, c, 0)},
	} {
		if x.condition != 0 && !d.SetCondition(x.condition, x.value) {
			t.Errorf("condition %#x isn't there", x.condition)
		}
		if got := d.launch(t, x.exec); !bytes.Equal(got, x.want) {
			t.Errorf("%+v: got %v", x, got)
		}
	}
	graph, exec := d.states.Graphs[0], d.states.Execs[0].Exec
	d.SetCondition(r.outer, 1)
	ok(t, d.GraphNodeSetEnabled(exec, graph.Nodes[0].Bodies[0].Nodes[0].Node, 1))
	if got := d.launch(t, 0); !bytes.Equal(got, words(a, b, 0, 0)) {
		t.Errorf("with all nodes: %v", got)
	}
	_, _, status, result := d.GraphExecUpdate(graph.Graph, exec)
	if ok(t, result); status != cudaabi.GraphExecUpdateSuccess {
		t.Errorf("update: status %d", status)
	}
	_, _, _, result = d.GraphAddNode(graph.Graph, nil, nil, &gpubackend.Node{
		Type: gpubackend.NodeConditional, Handle: r.outer, Bodies: 1})
	want(t, result, gpubackend.InvalidValue) // it has its node
	h, result := d.GraphConditionalHandle(graph.Graph, 0, 0)
	if ok(t, result); h <= r.orphans {
		t.Errorf("a new condition is %#x", h)
	}
	for _, e := range d.states.Execs {
		ok(t, d.GraphExecDestroy(e.Exec))
	}
	for _, g := range d.states.Graphs {
		ok(t, d.GraphDestroy(g.Graph))
	}
	if held := d.Graphs.Held(); held.Conditions != 0 || held.Bytes != 0 {
		t.Errorf("%d conditions and %d bytes are left", held.Conditions, held.Bytes)
	}
}

// TestSavedGraphMemory: another device has the memory of graphs at the same addresses, with what is
// in it, and as much of it is allocated.
func TestSavedGraphMemory(t *testing.T) {
	r := newPartsRig(t)
	before := r.use(t)
	d, result := r.again(t)
	ok(t, result)
	if now := d.use(t); now != before || now[0] != 10<<20+4096 {
		t.Errorf("%v is told, want %v", now, before)
	}
	if a, b := space.Bytes(r.lost, 10<<20), space.Bytes(r.kept, 4096); a[0] != 5 ||
		a[10<<20-1] != 5 || b[0] != 6 || b[4095] != 6 {
		t.Error("it has lost its content")
	}
	exec, graph := d.states.Execs[2].Exec, d.states.Graphs[1].Graph
	want(t, d.GraphLaunch(exec, 0), gpubackend.InvalidValue) // it is allocated already
	ok(t, d.MemFree(r.kept))
	ok(t, d.MemFree(r.lost))
	want(t, d.MemFree(r.lost), gpubackend.InvalidValue)
	want(t, d.MemFree(r.idle), gpubackend.InvalidValue)
	ok(t, d.GraphLaunch(exec, 0))
	_, result = d.GraphInstantiateWithFlags(graph, 0)
	want(t, result, gpubackend.NotSupported) // one at a time
	synchronize(t, d.Device)
	ok(t, d.MemFree(r.kept))
	ok(t, d.GraphExecDestroy(exec))
	ok(t, d.GraphDestroy(graph))
	synchronize(t, d.Device)
	if held := d.Graphs.Held(); held.Allocations != 0 || held.Reserved != 0 {
		t.Errorf("%d pieces are left", held.Allocations)
	}
}

// states are what is spoilt.
type states = gpubackend.GraphStates

// TestStrangeGraphParts: conditions and memory that no graphs can have had aren't made.
func TestStrangeGraphParts(t *testing.T) {
	for name, spoil := range map[string]func(r *partsRig, s *states){
		"another handle":  func(_ *partsRig, s *states) { s.Conditions[0].Handle = 5 },
		"a large handle":  func(_ *partsRig, s *states) { s.Conditions[0].Handle |= 1 << 44 },
		"no such handle":  func(_ *partsRig, s *states) { s.Conditions[0].Handle += 7 },
		"a handle twice":  func(_ *partsRig, s *states) { s.Conditions[1] = s.Conditions[0] },
		"another's graph": func(r *partsRig, s *states) { s.Conditions[0].Graph = r.making },
		"a graph's body's": func(r *partsRig, s *states) {
			s.Conditions[0].Graph = r.bodies[0]
		},
		"of no graph":        func(_ *partsRig, s *states) { s.Conditions[0].Graph = 0 },
		"of a strange graph": func(_ *partsRig, s *states) { s.Conditions[0].Graph = 3 },
		"nobody's": func(_ *partsRig, s *states) {
			c := s.Conditions[0]
			c.Handle, c.Graph = c.Handle+9, 0
			s.Conditions = append(s.Conditions, c)
		},
		"a body too few": func(_ *partsRig, s *states) {
			n := &s.Graphs[0].Nodes[0]
			n.Bodies = n.Bodies[:1]
		},
		"no bodies": func(_ *partsRig, s *states) { s.Graphs[0].Nodes[0].Bodies = nil },
		"too many bodies": func(_ *partsRig, s *states) {
			n := &s.Execs[1].Graph.Nodes[0]
			n.Bodies, n.What.Bodies = append(n.Bodies, n.Bodies[0], n.Bodies[0]), 3
		},
		"another kind": func(_ *partsRig, s *states) {
			s.Graphs[0].Nodes[0].What.Kind = 9
		},
		"a child and bodies": func(_ *partsRig, s *states) {
			s.Graphs[0].Nodes[0].Child = &gpubackend.GraphState{}
		},
		"a body of a fill": func(_ *partsRig, s *states) {
			n := s.Graphs[0].Nodes[0].Bodies[1]
			n.Nodes[0].Bodies = []*gpubackend.GraphState{{}}
		},
		"two nodes of a condition": func(_ *partsRig, s *states) {
			s.Graphs[0].Nodes = append(s.Graphs[0].Nodes, s.Graphs[0].Nodes[0])
		},
		"memory in a body": func(_ *partsRig, s *states) {
			s.Execs[1].Graph.Nodes[0].Bodies[0].Nodes[0] = s.Execs[2].Graph.Nodes[0]
		},
		"memory elsewhere":  func(_ *partsRig, s *states) { s.Memory[0].Address = 512 },
		"memory of another": func(r *partsRig, s *states) { s.Memory[0].Address = r.at },
		"more memory":       func(_ *partsRig, s *states) { s.Memory[0].Bytes++ },
		"memory twice":      func(_ *partsRig, s *states) { s.Memory[1] = s.Memory[0] },
		"no memory":         func(_ *partsRig, s *states) { s.Memory = nil },
		"a context":         func(_ *partsRig, s *states) { s.Memory[0].Context = 3 },
		"memory that nobody has": func(r *partsRig, s *states) {
			for i := range s.Memory {
				s.Memory[i].Live = s.Memory[i].Address != r.lost
			}
		},
		"a node's memory": func(_ *partsRig, s *states) {
			s.Graphs[1].Nodes[0].What.Bytes++
		},
		"a GPU":      func(_ *partsRig, s *states) { s.Peaks[0].Device = 9 },
		"a low peak": func(_ *partsRig, s *states) { s.Peaks[0].Used = 1 },
		"a low peak of what is reserved": func(_ *partsRig, s *states) {
			s.Peaks[0].Reserved = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPartsRig(t)
			spoil(r, r.states)
			if _, result := r.again(t); result == gpubackend.Success {
				t.Error("it is made")
			}
		})
	}
}
