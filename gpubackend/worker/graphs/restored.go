// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
	"github.com/paracuda/paracuda/gpubackend/worker/handles"
)

// Restoring has what is needed to make graphs again.
type Restoring struct {
	Buffers *call.Buffers
	// Current makes a context current.
	Current func(context uint64) gpubackend.Result
	// Next is told the handle that an object gets.
	Next func(handle uint64) error
}

// Restore makes saved graphs again, in empty Graphs. All else is there already.
func (s *Graphs) Restore(saved *Saved, with *Restoring) error {
	all, err := s.states(saved, with)
	if err != nil {
		return err
	}
	if result := s.Driver.RestoreGraphs(all); result != gpubackend.Success {
		return fmt.Errorf("make the graphs again: %w", result.Err())
	}
	for i := range all.Graphs {
		err := s.nameAgain(&saved.Graphs[i], &all.Graphs[i], 0, with.Next)
		if err != nil {
			return err
		}
	}
	for i := range all.Execs {
		err := s.again(object.GraphExec, uint64(all.Execs[i].Exec), saved.Execs[i].Handle, 0,
			with.Next)
		if err != nil {
			return err
		}
	}
	return nil
}

// Renew has the device look up host memory again that was registered anew since Restore.
func (s *Graphs) Renew() error {
	list, _ := s.all()
	now, result := s.Driver.RenewGraphs(list)
	if result != gpubackend.Success {
		return fmt.Errorf("make the graphs use the guest's memory: %w", result.Err())
	}
	for h, native := range s.Objects.All(object.GraphExec) {
		if anew, ok := now[gpubackend.GraphExec(native)]; ok {
			s.Objects.Replace(h, uint64(anew))
		}
	}
	return nil
}

// states are what the device makes graphs of.
func (s *Graphs) states(saved *Saved, with *Restoring) (*gpubackend.GraphStates, error) {
	all := &gpubackend.GraphStates{
		Graphs: make([]gpubackend.GraphState, len(saved.Graphs)),
		Execs:  make([]gpubackend.ExecState, len(saved.Execs)),
	}
	for i := range all.Graphs {
		if err := s.state(&saved.Graphs[i], &all.Graphs[i], with); err != nil {
			return nil, err
		}
	}
	for i := range all.Execs {
		x, to := &saved.Execs[i], &all.Execs[i]
		to.Source, to.Flags = gpubackend.Graph(x.Source), x.Flags
		if err := s.state(&x.Graph, &to.Graph, with); err != nil {
			return nil, err
		}
	}
	for _, c := range saved.Conditions {
		all.Conditions = append(all.Conditions, gpubackend.ConditionState{
			Handle: c.Handle, Graph: gpubackend.Graph(c.Graph), Initial: c.Initial, Value: c.Value,
			Assign: c.Assign,
		})
	}
	for _, m := range saved.Memory {
		c, result := handles.Context(s.Objects, m.Context)
		if result != gpubackend.Success {
			return nil, fmt.Errorf("%w have memory of no context: %w", errSaved, result.Err())
		}
		all.Memory = append(all.Memory, gpubackend.GraphMemory{
			Address: m.Address, Bytes: m.Bytes, Context: c, Live: m.Live,
		})
	}
	for _, p := range saved.Peaks {
		all.Peaks = append(all.Peaks, gpubackend.GraphMemoryPeak(p))
	}
	return all, nil
}

// state is the reverse of saving.graph: it makes the state from which the device makes a graph.
func (s *Graphs) state(g *SavedGraph, to *gpubackend.GraphState, with *Restoring) error {
	to.Graph = gpubackend.Graph(g.Number)
	to.Nodes = make([]gpubackend.NodeState, len(g.Nodes))
	for i := range g.Nodes {
		n, m := &g.Nodes[i], &to.Nodes[i]
		m.Node, m.Origin = gpubackend.GraphNode(n.Number), gpubackend.GraphNode(n.Origin)
		m.After, m.Edges, m.Disabled = n.After, n.Edges, n.Disabled
		if result := s.decodeSaved(n, m, with); result != gpubackend.Success {
			return fmt.Errorf("%w have a node that can't be: %w", errSaved, result.Err())
		}
		for k := range n.Graphs {
			g := &gpubackend.GraphState{}
			if err := s.state(&n.Graphs[k], g, with); err != nil {
				return err
			}
			if m.What.Type == gpubackend.NodeGraph {
				m.Child = g
			} else {
				m.Bodies = append(m.Bodies, g)
			}
		}
	}
	return nil
}

// decodeSaved reads the record of a node, in the context of that node.
func (s *Graphs) decodeSaved(
	n *SavedNode, to *gpubackend.NodeState, with *Restoring,
) (result gpubackend.Result) {
	if to.Context, result = handles.Context(s.Objects, n.Context); result != gpubackend.Success {
		return result
	}
	if result := with.Current(n.Context); result != gpubackend.Success {
		return result
	}
	kind, ok := command.Tag(n.Record)
	if !ok || nodeDecoders[kind] == nil {
		return gpubackend.InvalidValue
	}
	to.What.Type = gpubackend.NodeType(kind)
	if !suits(to.What.Type, len(n.Graphs)) {
		return gpubackend.InvalidValue
	}
	if to.What.Type != gpubackend.NodeGraph {
		c := call.New(with.Buffers)
		c.Start(&arena.Command{Command: wire.Command{Context: n.Context}})
		result = nodeDecoders[kind](s, &c, &to.What, n.Record)
	}
	to.What.Launch.Attributes = n.Attributes
	return result
}

// suits says whether a node of a type may have so many graphs.
func suits(t gpubackend.NodeType, graphs int) bool {
	switch t {
	case gpubackend.NodeGraph:
		return graphs == 1
	case gpubackend.NodeConditional:
		return graphs > 0
	}
	return graphs == 0
}

// nameAgain gives a graph, and what is in it, their old handles.
func (s *Graphs) nameAgain(
	was *SavedGraph, is *gpubackend.GraphState, parent uint64, next func(uint64) error,
) error {
	err := s.again(object.Graph, uint64(is.Graph), was.Handle, parent, next)
	if err != nil {
		return err
	}
	if was.Handle != 0 {
		s.graph[is.Graph] = was.Handle
	}
	for i := range was.Nodes {
		n, m := &was.Nodes[i], &is.Nodes[i]
		err := s.again(object.GraphNode, uint64(m.Node), n.Handle, was.Handle, next)
		if err != nil {
			return err
		}
		if n.Handle != 0 {
			s.node[m.Node] = n.Handle
		}
		for k, inner := range m.Inner() {
			g := &n.Graphs[k]
			if err := s.nameAgain(g, inner, was.Handle, next); err != nil {
				return err
			}
			if n.Handle != 0 && g.Handle != 0 {
				s.inNode(n.Handle, g.Handle)
			}
		}
	}
	return nil
}

// again gives an object its old handle, if it had one.
func (s *Graphs) again(
	kind object.Kind, native, handle, parent uint64, next func(uint64) error,
) error {
	if handle == 0 {
		return nil
	}
	if native == 0 {
		return fmt.Errorf("%w: %#x is in an executable one", errSaved, handle)
	}
	if err := next(handle); err != nil {
		return err
	}
	if s.Objects.Add(kind, native, parent) != handle {
		return fmt.Errorf("%w: %#x gets another handle", errSaved, handle)
	}
	return nil
}
