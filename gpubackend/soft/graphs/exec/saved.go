// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// SaveGraphs implements gpubackend.SavingGraphs.
func (x *Exec) SaveGraphs(
	graphs []gpubackend.Graph, list []gpubackend.GraphExec,
) (*gpubackend.GraphStates, error) {
	all, err := x.options.Graphs.States(graphs)
	if err != nil {
		return nil, err
	}
	for _, h := range list {
		e, result := x.executable(h)
		if result != gpubackend.Success {
			return nil, result.Err()
		}
		s, err := x.options.Graphs.State(e.graph)
		if err != nil {
			return nil, err
		}
		e.markDisabled(s, e.graph)
		state := gpubackend.ExecState{Exec: h, Flags: e.flags, Graph: *s}
		source := gpubackend.Graph(e.source.Handle)
		if g, _ := x.options.Graphs.Find(source); g == e.source {
			state.Source = source
		}
		all.Execs = append(all.Execs, state)
	}
	return all, nil
}

// markDisabled says which nodes are disabled.
func (e *executable) markDisabled(s *gpubackend.GraphState, g *graphs.Graph) {
	for i, n := range g.Nodes {
		s.Nodes[i].Disabled = e.disabled[n]
		for k, inner := range s.Nodes[i].Inner() {
			e.markDisabled(inner, n.Inner[k])
		}
	}
}

// RestoreGraphs implements gpubackend.SavingGraphs.
func (x *Exec) RestoreGraphs(s *gpubackend.GraphStates) gpubackend.Result {
	r, result := x.options.Graphs.Remaking(s)
	if result != gpubackend.Success {
		return result
	}
	sources := map[gpubackend.Graph]*graphs.Graph{}
	for i := range s.Graphs {
		was := s.Graphs[i].Graph
		g, result := r.Graph(&s.Graphs[i], nil, true)
		if result != gpubackend.Success {
			return result
		}
		sources[was] = g
	}
	made := make([]*executable, len(s.Execs))
	for i := range s.Execs {
		state := &s.Execs[i]
		g, result := r.Graph(&state.Graph, nil, false)
		if result != gpubackend.Success {
			return result
		}
		source := sources[state.Source]
		if source == nil {
			if source = (&graphs.Graph{}); state.Source != 0 {
				return gpubackend.InvalidValue
			}
		}
		made[i] = &executable{source: source, graph: g, flags: state.Flags,
			own: map[*graphs.Node]*graphs.Node{}, disabled: map[*graphs.Node]bool{}}
	}
	if result := r.Done(); result != gpubackend.Success {
		return result
	}
	for i, e := range made {
		if result := x.remake(e, &s.Execs[i]); result != gpubackend.Success {
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
	if _, result := e.graph.CheckConditions(); result != gpubackend.Success {
		return result
	}
	if _, acyclic := e.plan(e.graph, nil); !acyclic {
		return gpubackend.InvalidValue
	}
	e.conditions = e.graph.AllConditions(nil)
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
		for k, inner := range s.Nodes[i].Inner() {
			if !e.disable(inner, n.Inner[k]) {
				return false
			}
		}
	}
	return true
}

// RenewGraphs implements gpubackend.SavingGraphs. Nodes have addresses only: nothing is to be done.
func (x *Exec) RenewGraphs(
	[]gpubackend.Graph,
) (map[gpubackend.GraphExec]gpubackend.GraphExec, gpubackend.Result) {
	return nil, gpubackend.Success
}
