// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// SaveGraphs implements gpubackend.SavingGraphs.
func (x *Exec) SaveGraphs(graphs []gpubackend.Graph, list []gpubackend.GraphExec) (
	[]gpubackend.GraphState, []gpubackend.ExecState, error,
) {
	states, err := x.options.Graphs.States(graphs)
	if err != nil {
		return nil, nil, err
	}
	var execs []gpubackend.ExecState
	for _, h := range list {
		e, result := x.executable(h)
		if result != gpubackend.Success {
			return nil, nil, result.Err()
		}
		s, err := x.options.Graphs.State(e.graph)
		if err != nil {
			return nil, nil, err
		}
		e.markDisabled(s, e.graph)
		state := gpubackend.ExecState{Exec: h, Flags: e.flags, Graph: *s}
		source := gpubackend.Graph(e.source.Handle)
		if g, _ := x.options.Graphs.Find(source); g == e.source {
			state.Source = source
		}
		execs = append(execs, state)
	}
	return states, execs, nil
}

// markDisabled says which nodes are disabled.
func (e *executable) markDisabled(s *gpubackend.GraphState, g *graphs.Graph) {
	for i, n := range g.Nodes {
		s.Nodes[i].Disabled = e.disabled[n]
		if child := s.Nodes[i].Child; child != nil {
			e.markDisabled(child, n.Inner[0])
		}
	}
}

// RestoreGraphs implements gpubackend.SavingGraphs.
func (x *Exec) RestoreGraphs(
	list []gpubackend.GraphState, execs []gpubackend.ExecState,
) gpubackend.Result {
	r := x.options.Graphs.Remaking()
	sources := map[gpubackend.Graph]*graphs.Graph{}
	for i := range list {
		was := list[i].Graph
		g, result := r.Graph(&list[i], true)
		if result != gpubackend.Success {
			return result
		}
		sources[was] = g
	}
	made := make([]*executable, len(execs))
	for i := range execs {
		s := &execs[i]
		g, result := r.Graph(&s.Graph, false)
		if result != gpubackend.Success {
			return result
		}
		source := sources[s.Source]
		if source == nil {
			if source = (&graphs.Graph{}); s.Source != 0 {
				return gpubackend.InvalidValue
			}
		}
		made[i] = &executable{source: source, graph: g, flags: s.Flags,
			own: map[*graphs.Node]*graphs.Node{}, disabled: map[*graphs.Node]bool{}}
	}
	if result := r.Done(); result != gpubackend.Success {
		return result
	}
	for i, e := range made {
		if result := x.remake(e, &execs[i]); result != gpubackend.Success {
			return result
		}
	}
	return gpubackend.Success
}

// remake makes an executable graph of its parts.
func (x *Exec) remake(e *executable, s *gpubackend.ExecState) gpubackend.Result {
	if s.Flags&^instantiateFlags != 0 || !e.disable(&s.Graph, e.graph) {
		return gpubackend.InvalidValue
	}
	if _, acyclic := e.plan(e.graph, nil); !acyclic {
		return gpubackend.InvalidValue
	}
	delete(e.own, nil) // of nodes whose origin is gone
	if countSteps(e.steps) > graphs.MaxSteps {
		return gpubackend.OutOfMemory
	}
	if result := x.chargeSteps(e); result != gpubackend.Success {
		return result
	}
	e.source.Instances++
	s.Exec = gpubackend.GraphExec(x.options.Handles.Add(e))
	return gpubackend.Success
}

// disable is the reverse of markDisabled. It is false where a node can't be disabled.
func (e *executable) disable(s *gpubackend.GraphState, g *graphs.Graph) bool {
	for i, n := range g.Nodes {
		if s.Nodes[i].Disabled {
			if !canBeDisabled(n) {
				return false
			}
			e.disabled[n] = true
		}
		if child := s.Nodes[i].Child; child != nil && !e.disable(child, n.Inner[0]) {
			return false
		}
	}
	return true
}
