// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

// away makes the graphs of a process again in another one. It returns the new handles by the old.
func (r *rig) away(graphs []gpubackend.Graph, execs []gpubackend.GraphExec) (*rig, moved, error) {
	all, err := r.SaveGraphs(graphs, execs)
	if err != nil {
		return nil, moved{}, err
	}
	m := moved{map[gpubackend.Graph]gpubackend.Graph{}, nodes{},
		map[gpubackend.GraphExec]gpubackend.GraphExec{}}
	other := newRig(r.f.t)
	other.f.last = 1 << 30 // no handle is right by chance
	was := handles(all.Graphs)
	other.must(other.RestoreGraphs(all))
	for i, h := range handles(all.Graphs) {
		m.nodes[was[i]] = h
	}
	for i := range graphs {
		m.graphs[graphs[i]] = all.Graphs[i].Graph
	}
	for i := range execs {
		m.execs[execs[i]] = all.Execs[i].Exec
	}
	return other, m, nil
}

type moved struct {
	graphs map[gpubackend.Graph]gpubackend.Graph
	nodes  nodes
	execs  map[gpubackend.GraphExec]gpubackend.GraphExec
}

// handles are those of all nodes.
func handles(list []gpubackend.GraphState) (all []gpubackend.GraphNode) {
	for _, g := range list {
		for _, n := range g.Nodes {
			all = append(all, n.Node)
			if n.Child != nil {
				all = append(all, handles([]gpubackend.GraphState{*n.Child})...)
			}
		}
	}
	return all
}

// TestNothingIsCopied as long as graphs only are instantiated, launched and destroyed.
func TestNothingIsCopied(t *testing.T) {
	r := newRig(t)
	g := r.create()
	r.add(g, fill(1))
	e := r.instantiate(g)
	r.must(r.GraphDestroy(g))
	if r.f.cloned != 0 || len(r.f.graphs) != 2 {
		t.Errorf("%d copies, %d graphs", r.f.cloned, len(r.f.graphs))
	}
	r.must(r.GraphExecDestroy(e))
	if len(r.f.graphs) != 0 || len(r.sources)+len(r.execs) != 0 {
		t.Errorf("%d graphs are left", len(r.f.graphs))
	}
}

// TestRandomPrograms: whatever a program does with its graphs, another process has them, and its
// executable graphs do the same, now and when both go on.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(300) {
		p := newProgram(t, seed)
		for range 40 {
			p.step()
		}
		other, m, err := p.away(p.graphs, p.execs)
		if errors.Is(err, errInner) {
			continue // an executable graph is older than the first handle of what is in it
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p.compare(other, m, seed)
		p.goOn(other, m, seed)
		p.compare(other, m, seed)
		again, n, err := other.away(values(p.graphs, m.graphs), values(p.execs, m.execs))
		if err != nil {
			t.Fatalf("seed %d, again: %v", seed, err)
		}
		p.compare(again, m.then(n), seed)
		for _, e := range p.execs {
			p.must(p.GraphExecDestroy(e))
		}
		for _, g := range p.graphs {
			p.must(p.GraphDestroy(g))
		}
		if len(p.f.graphs)+len(p.f.nodes)+len(p.sources) != 0 {
			t.Fatalf("seed %d: %d graphs, %d nodes are left", seed, len(p.f.graphs),
				len(p.f.nodes))
		}
	}
}

func values[K comparable](keys []K, m map[K]K) (list []K) {
	for _, k := range keys {
		list = append(list, m[k])
	}
	return list
}

// then is m after which n was.
func (m moved) then(n moved) moved {
	c := moved{map[gpubackend.Graph]gpubackend.Graph{}, m.nodes.then(n.nodes),
		map[gpubackend.GraphExec]gpubackend.GraphExec{}}
	for k, v := range m.graphs {
		c.graphs[k] = n.graphs[v]
	}
	for k, v := range m.execs {
		c.execs[k] = n.execs[v]
	}
	return c
}

// program does something at random.
type program struct {
	*rig
	rand   *rand.Rand
	graphs []gpubackend.Graph
	execs  []gpubackend.GraphExec
	made   map[gpubackend.GraphExec]gpubackend.Graph
	values uint64
	inner  bool // it may look into nodes
}

func newProgram(t *testing.T, seed uint64) *program {
	return &program{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 1)),
		made: map[gpubackend.GraphExec]gpubackend.Graph{}, inner: seed%3 == 0}
}

func (p *program) value() *gpubackend.Node {
	p.values++
	return fill(p.values)
}

// pick chooses one of a list.
func pick[T any](p *program, list []T) (one T) {
	if len(list) > 0 {
		one = list[p.rand.IntN(len(list))]
	}
	return one
}

func (p *program) step() {
	g, e := pick(p, p.graphs), pick(p, p.execs)
	if g == 0 {
		p.graphs = append(p.graphs, p.create())
		return
	}
	list, _ := p.calls.GraphGetNodes(g)
	n := pick(p, list)
	switch p.rand.IntN(14) {
	case 0:
		p.graphs = append(p.graphs, p.create())
	case 1, 2:
		var after []gpubackend.GraphNode
		if n != 0 {
			after = append(after, n)
		}
		p.add(g, p.value(), after...)
	case 3:
		p.instantiateOne(g)
	case 4:
		p.graphs = slices.DeleteFunc(p.graphs, func(h gpubackend.Graph) bool { return h == g })
		p.must(p.GraphDestroy(g))
	case 5:
		c, result := p.GraphClone(g)
		p.must(result)
		p.graphs = append(p.graphs, c)
		p.updateOne(e, c)
	case 6:
		p.updateOne(e, g)
	case 7:
		if n != 0 && p.f.nodes[n].child == nil {
			p.must(p.GraphNodeSet(n, p.value()))
		}
	case 8:
		if n != 0 {
			p.must(p.GraphDestroyNode(n))
		}
	case 9:
		if inner := pick(p, p.graphs); inner != g {
			p.add(g, &gpubackend.Node{Type: gpubackend.NodeGraph, Child: inner})
		}
	case 10:
		if n != 0 && p.inner {
			_, result := p.GraphNodeGet(n)
			p.must(result)
		}
	default:
		p.change(e)
	}
}

func (p *program) instantiateOne(g gpubackend.Graph) {
	e := p.instantiate(g)
	p.execs, p.made[e] = append(p.execs, e), g
}

func (p *program) updateOne(e gpubackend.GraphExec, g gpubackend.Graph) {
	if e != 0 && sameForm(p.f.graph(g), p.f.execs[e].graph) {
		_, _, _, result := p.GraphExecUpdate(g, e)
		p.must(result)
	}
}

// sameForm says whether one graph can take the other's place.
func sameForm(a, b *fakeGraph) bool {
	place := func(g *fakeGraph, e fakeEdge) [2]int {
		return [2]int{slices.Index(g.nodes, e.from), slices.Index(g.nodes, e.to)}
	}
	return slices.EqualFunc(a.nodes, b.nodes, func(m, n *fakeNode) bool {
		return (m.child == nil) == (n.child == nil) &&
			(m.child == nil || sameForm(m.child, n.child))
	}) && slices.EqualFunc(a.edges, b.edges, func(d, e fakeEdge) bool {
		return place(a, d) == place(b, e)
	})
}

// change changes a node of an executable graph whose graph is still there.
func (p *program) change(e gpubackend.GraphExec) {
	if n := pick(p, p.namesOf(e)); n != 0 {
		if p.rand.IntN(2) == 0 {
			p.must(p.GraphExecNodeSet(e, n, p.value()))
		} else {
			p.must(p.GraphNodeSetEnabled(e, n, uint64(p.rand.IntN(2))))
		}
	}
}

// namesOf are the nodes with which a program can name those of an executable graph.
func (p *program) namesOf(e gpubackend.GraphExec) (list []gpubackend.GraphNode) {
	if e == 0 || !slices.Contains(p.graphs, p.made[e]) {
		return nil
	}
	for _, n := range p.f.graph(p.made[e]).nodes {
		if n.child == nil && p.f.execs[e].at[n] != nil {
			list = append(list, n.handle)
		}
	}
	return list
}

// compare compares all graphs with those of another process.
func (p *program) compare(other *rig, m moved, seed uint64) {
	p.f.t.Helper()
	for _, e := range p.execs {
		if want, has := p.f.does(e), other.f.does(m.execs[e]); !slices.Equal(want, has) {
			p.f.t.Fatalf("seed %d: an executable graph does %v, want %v", seed, has, want)
		}
	}
	for _, g := range p.graphs {
		want, has := p.f.fills(p.f.graph(g), nil), other.f.fills(other.f.graph(m.graphs[g]), nil)
		if !slices.Equal(want, has) {
			p.f.t.Fatalf("seed %d: a graph does %v, want %v", seed, has, want)
		}
		for _, c := range p.graphs {
			for _, n := range p.f.graph(g).nodes {
				at, result := p.GraphNodeFindInClone(n.handle, c)
				there, result2 := other.GraphNodeFindInClone(m.nodes[n.handle], m.graphs[c])
				if result == gpubackend.Success && (result2 != result || there != m.nodes[at]) {
					p.f.t.Fatalf("seed %d: the copy of a node is %#x, want %#x", seed, there,
						m.nodes[at])
				}
			}
		}
	}
}

// goOn changes executable graphs here and in another process.
func (p *program) goOn(other *rig, m moved, seed uint64) {
	for _, e := range p.execs {
		for _, n := range p.namesOf(e) {
			value := p.value()
			p.must(p.GraphExecNodeSet(e, n, value))
			if result := other.GraphExecNodeSet(m.execs[e], m.nodes[n], value); result != 0 {
				p.f.t.Fatalf("seed %d: a node isn't known: %v", seed, result)
			}
			on, result := p.GraphNodeGetEnabled(e, n)
			p.must(result)
			if has, result := other.GraphNodeGetEnabled(m.execs[e], m.nodes[n]); result != 0 ||
				has != on {
				p.f.t.Fatalf("seed %d: enabled is %d, want %d", seed, has, on)
			}
		}
	}
}
