// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
)

// Saved has all graphs. Numbers of graphs and nodes only identify them; handles are the guest's.
type Saved struct {
	Graphs     []SavedGraph
	Execs      []SavedExec
	Conditions []SavedCondition
	Memory     []SavedMemory
	Peaks      []SavedPeak
}

// SavedGraph is a graph.
type SavedGraph struct {
	Number, Handle uint64 // 0: it has none
	Nodes          []SavedNode
}

// SavedNode is a node. Its record is as in docs/commands.md; if it has a child graph the record is
// only its type.
type SavedNode struct {
	Number, Handle uint64       // 0: it has none
	Origin         uint64       // number of what it is a copy of; 0: nothing
	Context        uint64       // handle
	Record         []byte       // what it does
	Attributes     []byte       // of a launch
	After          []int        // positions of those that it comes after
	Edges          []byte       // what is known of these edges; none: nothing
	Graphs         []SavedGraph // that it has: a child graph, or bodies
	Disabled       bool         // in an executable graph
}

// SavedExec is an executable graph.
type SavedExec struct {
	Handle uint64
	Source uint64 // number of the graph that it was made from; 0: it is gone
	Flags  uint64
	Graph  SavedGraph
}

// SavedCondition is a condition, by the number that kernels have.
type SavedCondition struct {
	Handle         uint64
	Graph          uint64 // number of the graph for which it was made; 0: it is gone
	Initial, Value uint32
	Assign         bool
}

// SavedMemory is memory of graphs.
type SavedMemory struct {
	Address, Bytes uint64
	Context        uint64 // handle
	Live           bool   // it is allocated now
}

// SavedPeak is the most memory of graphs that a GPU has had.
type SavedPeak struct{ Device, Used, Reserved uint64 }

var (
	errSaved = errors.New("the saved graphs")
	errNames = errors.New("a graph has something for which the program has no handle")
)

// saving is one Save.
type saving struct {
	*Graphs
	names     map[object.Kind]map[uint64]uint64 // handles by the device's own
	functions map[gpubackend.Function]uint64
	named     int // objects of graphs
}

// Save returns all graphs. No stream is captured, and all work is done.
func (s *Graphs) Save() (*Saved, error) {
	all, err := s.Driver.SaveGraphs(s.all())
	if err != nil {
		return nil, err
	}
	v := &saving{Graphs: s, names: map[object.Kind]map[uint64]uint64{},
		functions: map[gpubackend.Function]uint64{}}
	for _, kind := range [...]object.Kind{
		object.Context, object.Event, object.Graph, object.GraphNode, object.GraphExec,
	} {
		v.names[kind] = map[uint64]uint64{}
		for h, native := range s.Objects.All(kind) {
			v.names[kind][native] = h
		}
	}
	saved := &Saved{}
	for i := range all.Graphs {
		g, err := v.graph(&all.Graphs[i], 0)
		if err != nil {
			return nil, err
		}
		saved.Graphs = append(saved.Graphs, *g)
	}
	for i := range all.Execs {
		x := &all.Execs[i]
		g, err := v.graph(&x.Graph, 0)
		if err != nil {
			return nil, err
		}
		h, err := v.name(object.GraphExec, uint64(x.Exec), 0)
		if err != nil || h == 0 {
			return nil, errors.Join(errNames, err)
		}
		saved.Execs = append(saved.Execs, SavedExec{h, uint64(x.Source), x.Flags, *g})
	}
	if v.named != s.Saves() {
		return nil, fmt.Errorf("%w has %d objects, not %d", errSaved, v.named, s.Saves())
	}
	return saved, v.parts(all, saved)
}

// parts adds conditions and memory.
func (v *saving) parts(all *gpubackend.GraphStates, to *Saved) error {
	for _, c := range all.Conditions {
		to.Conditions = append(to.Conditions,
			SavedCondition{c.Handle, uint64(c.Graph), c.Initial, c.Value, c.Assign})
	}
	for _, m := range all.Memory {
		context := v.names[object.Context][uint64(m.Context)]
		if context == 0 {
			return errNames
		}
		to.Memory = append(to.Memory, SavedMemory{m.Address, m.Bytes, context, m.Live})
	}
	for _, p := range all.Peaks {
		to.Peaks = append(to.Peaks, SavedPeak(p))
	}
	return nil
}

// all are the device's own handles of the graphs that lie in no other, and of the executable ones.
func (s *Graphs) all() (list []gpubackend.Graph, execs []gpubackend.GraphExec) {
	for h, native := range s.Objects.All(object.Graph) {
		if s.Objects.Parent(h) == 0 {
			list = append(list, gpubackend.Graph(native))
		}
	}
	for _, native := range s.Objects.All(object.GraphExec) {
		execs = append(execs, gpubackend.GraphExec(native))
	}
	slices.Sort(list)
	slices.Sort(execs)
	return list, execs
}

// Saves is how many objects Restore makes of what Save returns.
func (s *Graphs) Saves() int {
	o := s.Objects
	return o.Count(object.Graph) + o.Count(object.GraphNode) + o.Count(object.GraphExec)
}

// name is the guest's handle of an object in parent.
func (v *saving) name(kind object.Kind, native, parent uint64) (uint64, error) {
	h := v.names[kind][native]
	if h == 0 {
		return 0, nil
	}
	if v.Objects.Parent(h) != parent {
		return 0, fmt.Errorf("%w: %#x is in another one", errSaved, h)
	}
	v.named++
	return h, nil
}

func (v *saving) graph(g *gpubackend.GraphState, parent uint64) (*SavedGraph, error) {
	h, err := v.name(object.Graph, uint64(g.Graph), parent)
	if err != nil {
		return nil, err
	}
	s := &SavedGraph{Number: uint64(g.Graph), Handle: h}
	for i := range g.Nodes {
		n, err := v.node(&g.Nodes[i], h)
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, *n)
	}
	return s, nil
}

func (v *saving) node(n *gpubackend.NodeState, graph uint64) (*SavedNode, error) {
	h, err := v.name(object.GraphNode, uint64(n.Node), graph)
	if err != nil {
		return nil, err
	}
	s := &SavedNode{
		Number: uint64(n.Node), Handle: h, Origin: uint64(n.Origin), After: n.After,
		Edges:      n.Edges,
		Context:    v.names[object.Context][uint64(n.Context)],
		Attributes: n.What.Launch.Attributes, Disabled: n.Disabled,
	}
	known := s.Context != 0
	switch n.What.Type {
	case gpubackend.NodeGraph:
		s.Record = command.AppendTag(nil, uint64(gpubackend.NodeGraph))
	case gpubackend.NodeConditional:
		s.Record = (&command.NodeConditional{
			Handle: n.What.Handle, Kind: n.What.Kind, Bodies: n.What.Bodies,
		}).Append(nil)
	case gpubackend.NodeKernel:
		f := v.function(n.What.Launch.Function)
		known = known && f != 0
		s.Record = kernelRecord(&n.What.Launch, f).Append(nil)
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		known = known && v.names[object.Event][uint64(n.What.Event)] != 0
		s.Record = v.nodeRecord(&n.What, 0).Append(nil)
	default:
		s.Record = v.nodeRecord(&n.What, 0).Append(nil)
	}
	if !known {
		return nil, errNames
	}
	for _, inner := range n.Inner() {
		g, err := v.graph(inner, graph)
		if err != nil {
			return nil, err
		}
		s.Graphs = append(s.Graphs, *g)
	}
	return s, nil
}

func (v *saving) function(f gpubackend.Function) uint64 {
	h, ok := v.functions[f]
	if !ok {
		h = v.Kernels.Name(f)
		v.functions[f] = h
	}
	return h
}
