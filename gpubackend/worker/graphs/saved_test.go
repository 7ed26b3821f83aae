// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// savedDriver has graphs. Those that it restores have handles that are greater by 100.
type savedDriver struct {
	fakeDriver
	graphs []gpubackend.GraphState
	execs  []gpubackend.ExecState

	asked      []gpubackend.Graph // for their states
	askedExecs []gpubackend.GraphExec
}

func (d *savedDriver) SaveGraphs(graphs []gpubackend.Graph, execs []gpubackend.GraphExec) (
	[]gpubackend.GraphState, []gpubackend.ExecState, error,
) {
	d.asked, d.askedExecs = graphs, execs
	return d.graphs, d.execs, nil
}

func (d *savedDriver) RestoreGraphs(
	graphs []gpubackend.GraphState, execs []gpubackend.ExecState,
) gpubackend.Result {
	d.graphs, d.execs = graphs, execs
	for i := range graphs {
		moved(&graphs[i])
	}
	for i := range execs {
		execs[i].Exec = gpubackend.GraphExec(900 + i)
	}
	return gpubackend.Success
}

func moved(g *gpubackend.GraphState) {
	g.Graph += 100
	for i := range g.Nodes {
		g.Nodes[i].Node += 100
		if g.Nodes[i].Child != nil {
			moved(g.Nodes[i].Child)
		}
	}
}

// program has a graph with a child graph, one of whose nodes has no handle, and an executable
// graph.
func program() (r *rig, d *savedDriver) {
	r, d = newRig(), &savedDriver{}
	r.Driver = d
	r.objects.Add(object.Context, 5, 0)
	r.objects.Add(object.Event, 9, 0)
	kernel := gpubackend.Node{Launch: gpubackend.Launch{Function: 7, Grid: [3]uint32{1, 2, 3},
		Parameters: []byte("12345678"), Attributes: []byte("attributes")}}
	record := gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: 9}
	child := &gpubackend.GraphState{Graph: 3, Nodes: []gpubackend.NodeState{
		{Node: 31, Origin: 12, Context: 5, What: record}, {Node: 32, Context: 5, What: kernel,
			After: []int{0}, Edges: []byte("an edge.")},
	}}
	d.graphs = []gpubackend.GraphState{{Graph: 1, Nodes: []gpubackend.NodeState{
		{Node: 11, Context: 5, What: gpubackend.Node{Type: gpubackend.NodeGraph}, Child: child},
		{Node: 12, Context: 5, What: kernel, After: []int{0}},
	}}}
	d.execs = []gpubackend.ExecState{{Exec: 8, Source: 1, Flags: 1, Graph: gpubackend.GraphState{
		Nodes: []gpubackend.NodeState{{Origin: 12, Context: 5, What: kernel, Disabled: true}},
	}}}
	g := r.NameGraph(1, 0)
	n := r.NameGraphNode(11, g)
	r.NameGraphNode(12, g)
	r.NameGraphNode(31, r.nameChild(3, n))
	r.objects.Add(object.GraphExec, 8, 0)
	return r, d
}

// restore makes saved graphs again in another program, by way of a file.
func (r *rig) restore(t *testing.T, saved *Saved) (*rig, *savedDriver, error) {
	t.Helper()
	b, err := json.Marshal(saved)
	read := &Saved{}
	var table bytes.Buffer
	if err := errors.Join(err, json.Unmarshal(b, read), r.objects.Save(&table)); err != nil {
		t.Fatal(err)
	}
	other, d := newRig(), &savedDriver{}
	other.Driver = d
	objects, err := object.Restore(&other.objects, &table)
	if err != nil {
		t.Fatal(err)
	}
	for kind, native := range map[object.Kind]uint64{object.Context: 5, object.Event: 9} {
		if err := objects.Next(r.objects.Existing(kind, native)); err != nil {
			t.Fatal(err)
		}
		other.objects.Add(kind, native, 0)
	}
	return other, d, errors.Join(other.Restore(read, &Restoring{
		Buffers: &call.Buffers{}, Next: func(h uint64) error { return objects.Next(h) },
		Current: func(uint64) gpubackend.Result { return gpubackend.Success },
	}), objects.Done())
}

// TestSaved: another program has the same graphs and nodes, by the same handles, and goes on.
func TestSaved(t *testing.T) {
	r, d := program()
	saved, err := r.Save()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.asked, []gpubackend.Graph{1}) ||
		!slices.Equal(d.askedExecs, []gpubackend.GraphExec{8}) {
		t.Errorf("%v and %v are saved", d.asked, d.askedExecs)
	}
	other, has, err := r.restore(t, saved)
	if err != nil {
		t.Fatal(err)
	}
	want := d.graphs
	moved(&want[0])
	if !reflect.DeepEqual(has.graphs, want) {
		t.Errorf("it has %+v, want %+v", has.graphs, want)
	}
	d.execs[0].Exec = 900
	if !reflect.DeepEqual(has.execs, d.execs) {
		t.Errorf("it has %+v, want %+v", has.execs, d.execs)
	}
	for kind, list := range map[object.Kind]map[uint64]uint64{
		object.Graph: {1: 101, 3: 103}, object.GraphNode: {11: 111, 12: 112, 31: 131},
		object.GraphExec: {8: 900},
	} {
		for was, is := range list {
			h := r.objects.Existing(kind, was)
			if n, ok := other.objects.Lookup(kind, h); !ok || n != is {
				t.Errorf("%#x was %d and is %d, want %d", h, was, n, is)
			}
			if r.objects.Parent(h) != other.objects.Parent(h) {
				t.Errorf("%#x is in %#x", h, other.objects.Parent(h))
			}
		}
	}
	if h := other.NameGraphNode(131, 0); h != r.objects.Existing(object.GraphNode, 31) {
		t.Errorf("a node gets another name, %#x", h)
	}
	if other.Names() != 5 || len(other.child) != 1 {
		t.Errorf("%d names, %d children", other.Names(), len(other.child))
	}
}

// TestUnsavable: what the device or the program doesn't know of isn't saved.
func TestUnsavable(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, d *savedDriver){
		"a handle of nothing":  func(r *rig, _ *savedDriver) { r.NameGraph(55, 0) },
		"no handle of an exec": func(_ *rig, d *savedDriver) { d.execs[0].Exec = 4 },
		"another context":      func(_ *rig, d *savedDriver) { d.graphs[0].Nodes[0].Context = 4 },
		"an event that is gone": func(r *rig, _ *savedDriver) {
			r.objects.Remove(r.objects.Existing(object.Event, 9))
		},
		"in another graph": func(r *rig, _ *savedDriver) {
			h := r.objects.Existing(object.GraphNode, 31)
			r.objects.Remove(h)
			r.objects.Add(object.GraphNode, 31, r.objects.Existing(object.Graph, 1))
		},
	} {
		r, d := program()
		spoil(r, d)
		if saved, err := r.Save(); err == nil {
			t.Errorf("%s: %+v", name, saved)
		}
	}
}

// TestStrangeRecord: what can't have been saved isn't restored.
func TestStrangeRecord(t *testing.T) {
	for name, spoil := range map[string]func(s *Saved){
		"no record": func(s *Saved) { s.Graphs[0].Nodes[1].Record = nil },
		"half a record": func(s *Saved) {
			n := &s.Graphs[0].Nodes[1]
			n.Record = n.Record[:16]
		},
		"an unknown record": func(s *Saved) {
			s.Graphs[0].Nodes[1].Record = []byte("12345678")
		},
		"no graph":              func(s *Saved) { s.Graphs[0].Nodes[0].Graph = nil },
		"a graph too many":      func(s *Saved) { s.Graphs[0].Nodes[1].Graph = &SavedGraph{} },
		"no context":            func(s *Saved) { s.Graphs[0].Nodes[1].Context = 77 },
		"another handle":        func(s *Saved) { s.Graphs[0].Handle++ },
		"another exec's handle": func(s *Saved) { s.Execs[0].Handle++ },
	} {
		r, _ := program()
		saved, err := r.Save()
		if err != nil {
			t.Fatal(err)
		}
		spoil(saved)
		if _, _, err := r.restore(t, saved); err == nil {
			t.Errorf("%s: it is restored", name)
		}
	}
}
