// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"encoding/binary"
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
	states gpubackend.GraphStates

	asked      []gpubackend.Graph // for their states, or to renew them
	renews     gpubackend.Result
	askedExecs []gpubackend.GraphExec
}

func (d *savedDriver) SaveGraphs(
	graphs []gpubackend.Graph, execs []gpubackend.GraphExec,
) (*gpubackend.GraphStates, error) {
	d.asked, d.askedExecs = graphs, execs
	return &d.states, nil
}

func (d *savedDriver) RestoreGraphs(s *gpubackend.GraphStates) gpubackend.Result {
	for i := range s.Graphs {
		moved(&s.Graphs[i])
	}
	for i := range s.Execs {
		s.Execs[i].Exec = gpubackend.GraphExec(900 + i)
	}
	d.states = *s
	return gpubackend.Success
}

// RenewGraphs makes two executable graphs again, each under the other one's handle.
func (d *savedDriver) RenewGraphs(list []gpubackend.Graph) (
	map[gpubackend.GraphExec]gpubackend.GraphExec, gpubackend.Result,
) {
	d.asked = list
	return map[gpubackend.GraphExec]gpubackend.GraphExec{900: 901, 901: 900, 77: 78}, d.renews
}

func moved(g *gpubackend.GraphState) {
	g.Graph += 100
	for i := range g.Nodes {
		g.Nodes[i].Node += 100
		for _, inner := range g.Nodes[i].Inner() {
			moved(inner)
		}
	}
}

// program has a graph with a child graph, one of whose nodes has no handle, and with a node with
// two bodies, one of which has none; an executable graph, conditions, and memory.
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
	chooses := gpubackend.Node{Type: gpubackend.NodeConditional, Handle: 77, Bodies: 2}
	bodies := []*gpubackend.GraphState{{Graph: 4, Nodes: []gpubackend.NodeState{}},
		{Graph: 6, Nodes: []gpubackend.NodeState{{Node: 61, Context: 5, What: kernel}}}}
	d.states = gpubackend.GraphStates{
		Graphs: []gpubackend.GraphState{{Graph: 1, Nodes: []gpubackend.NodeState{
			{Node: 11, Context: 5, What: gpubackend.Node{Type: gpubackend.NodeGraph}, Child: child},
			{Node: 12, Context: 5, What: kernel, After: []int{0}},
			{Node: 13, Context: 5, What: chooses, Bodies: bodies},
		}}},
		Execs: []gpubackend.ExecState{{Exec: 8, Source: 1, Flags: 1, Graph: gpubackend.GraphState{
			Nodes: []gpubackend.NodeState{{Origin: 12, Context: 5, What: kernel, Disabled: true}},
		}}},
		Conditions: []gpubackend.ConditionState{{Handle: 77, Graph: 1, Initial: 2, Value: 3},
			{Handle: 78, Assign: true}},
		Memory: []gpubackend.GraphMemory{{Address: 4096, Bytes: 10, Context: 5, Live: true}},
		Peaks:  []gpubackend.GraphMemoryPeak{{Device: 1, Used: 2, Reserved: 3}},
	}
	g := r.NameGraph(1, 0)
	n := r.NameGraphNode(11, g)
	r.NameGraphNode(12, g)
	r.NameGraphNode(31, r.nameChild(3, n))
	r.NameGraphNode(13, g)
	names := make([]byte, 16)
	r.NameGraphs(names, []gpubackend.Graph{4, 6}, g)
	r.NameGraphNode(61, binary.LittleEndian.Uint64(names[8:]))
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
	want := d.states
	moved(&want.Graphs[0])
	want.Execs[0].Exec = 900
	if !reflect.DeepEqual(has.states, want) {
		t.Errorf("it has %+v, want %+v", has.states, want)
	}
	for kind, list := range map[object.Kind]map[uint64]uint64{
		object.Graph:     {1: 101, 3: 103, 4: 104, 6: 106},
		object.GraphNode: {11: 111, 12: 112, 13: 113, 31: 131, 61: 161},
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
	if other.Names() != 9 || !reflect.DeepEqual(other.inner, r.inner) {
		t.Errorf("%d names, in nodes %v, want %v", other.Names(), other.inner, r.inner)
	}
}

// TestRenewed: executable graphs keep their handles when the device has others for them.
func TestRenewed(t *testing.T) {
	r, d := newRig(), &savedDriver{}
	r.Driver = d
	if err := r.Renew(); err != nil || d.asked != nil {
		t.Errorf("without graphs: %v, %v are renewed", err, d.asked)
	}
	r.NameGraph(1, 0)
	natives := []uint64{900, 901, 902}
	var handles []uint64
	for _, native := range natives {
		handles = append(handles, r.objects.Add(object.GraphExec, native, 0))
	}
	if err := r.Renew(); err != nil || !slices.Equal(d.asked, []gpubackend.Graph{1}) {
		t.Fatalf("%v, %v are renewed", err, d.asked)
	}
	for i, want := range []uint64{901, 900, 902} {
		if is, ok := r.objects.Lookup(object.GraphExec, handles[i]); !ok || is != want {
			t.Errorf("%d is %d now, want %d", natives[i], is, want)
		}
	}
	if d.renews = gpubackend.InvalidValue; r.Renew() == nil {
		t.Error("what fails is no error")
	}
}

// TestUnsavable: what the device or the program doesn't know of isn't saved.
func TestUnsavable(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, d *savedDriver){
		"a handle of nothing":  func(r *rig, _ *savedDriver) { r.NameGraph(55, 0) },
		"no handle of an exec": func(_ *rig, d *savedDriver) { d.states.Execs[0].Exec = 4 },
		"another context": func(_ *rig, d *savedDriver) {
			d.states.Graphs[0].Nodes[0].Context = 4
		},
		"another context's memory": func(_ *rig, d *savedDriver) { d.states.Memory[0].Context = 4 },
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
		"no graph":              func(s *Saved) { s.Graphs[0].Nodes[0].Graphs = nil },
		"a graph too many":      func(s *Saved) { s.Graphs[0].Nodes[1].Graphs = []SavedGraph{{}} },
		"two child graphs":      func(s *Saved) { twice(&s.Graphs[0].Nodes[0]) },
		"no bodies":             func(s *Saved) { s.Graphs[0].Nodes[2].Graphs = nil },
		"another body's handle": func(s *Saved) { s.Graphs[0].Nodes[2].Graphs[1].Handle++ },
		"memory of no context":  func(s *Saved) { s.Memory[0].Context = 77 },
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

func twice(n *SavedNode) { n.Graphs = append(n.Graphs, n.Graphs[0]) }

// TestBodiesEndWithTheirNode: the names of bodies, and of what is in them, are gone with the node.
func TestBodiesEndWithTheirNode(t *testing.T) {
	r, d := program()
	r.ForgetGraphNode(r.objects.Existing(object.GraphNode, 13))
	d.states.Graphs[0].Nodes = d.states.Graphs[0].Nodes[:2]
	for kind, native := range map[object.Kind]uint64{object.Graph: 6, object.GraphNode: 61} {
		if h := r.objects.Existing(kind, native); h != 0 {
			t.Errorf("%d is still %#x", native, h)
		}
	}
	if _, err := r.Save(); err != nil || len(r.inner) != 1 {
		t.Errorf("%v; in nodes %v", err, r.inner)
	}
}
