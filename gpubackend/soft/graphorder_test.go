// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/paracuda/paracuda/gpubackend"
)

// slowGraph says what may run when. It has nodes in the order in which they were added, and of each
// those that it comes after. A node is a child graph or a host function, which the test completes
// when it likes.
type slowGraph struct {
	handle gpubackend.Graph
	nodes  []gpubackend.GraphNode
	after  [][]int
	child  []*slowGraph
}

// randomGraph builds a graph and its model.
func randomGraph(
	t testing.TB, d *Device, random *rand.Rand, call gpubackend.HostCall, depth int,
) *slowGraph {
	t.Helper()
	h, result := d.GraphCreate(0)
	ok(t, result)
	g := &slowGraph{handle: h}
	for i := range random.IntN(6) {
		what := &gpubackend.Node{Type: gpubackend.NodeHost, Call: call, Token: random.Uint64()}
		var child *slowGraph
		if depth > 0 && random.IntN(4) == 0 {
			child = randomGraph(t, d, random, call, depth-1)
			what = &gpubackend.Node{Type: gpubackend.NodeGraph, Child: child.handle,
				Moved: random.IntN(2) == 0}
		}
		var after []int
		var list []gpubackend.GraphNode
		for k := range i {
			if random.IntN(3) == 0 {
				after, list = append(after, k), append(list, g.nodes[k])
			}
		}
		n, _, _, result := d.GraphAddNode(h, list, nil, what)
		ok(t, result)
		if child != nil && !what.Moved {
			ok(t, d.GraphDestroy(child.handle))
		}
		g.nodes, g.after, g.child = append(g.nodes, n), append(g.after, after),
			append(g.child, child)
	}
	return g
}

// run adds the operations of a launch that comes after those in before, and returns them. The token
// of a host function tells which one it is.
func (g *slowGraph) run(m *graphModel, before map[int]bool) map[int]bool {
	all := map[int]bool{}
	done := make([]map[int]bool, len(g.nodes)) // of each node: its operations and all before them
	for i := range g.nodes {
		mine := maps.Clone(before)
		for _, k := range g.after[i] {
			maps.Copy(mine, done[k])
		}
		if g.child[i] != nil {
			ops := g.child[i].run(m, mine)
			maps.Copy(mine, ops)
			maps.Copy(all, ops)
		} else {
			m.before = append(m.before, maps.Clone(mine))
			op := len(m.before) - 1
			mine[op], all[op] = true, true
			m.token[op] = m.tokens[g][i]
		}
		done[i] = mine
	}
	return all
}

// graphModel is what was launched.
type graphModel struct {
	before  []map[int]bool              // of each operation: those that it comes after
	token   map[int]uint64              // of each operation
	tokens  map[*slowGraph][]uint64     // of each node
	streams []map[int]bool              // of each stream: its operations and all before them
	graphs  map[*slowGraph]map[int]bool // of each graph: likewise
}

// note reads the tokens of a graph's nodes.
func (m *graphModel) note(t testing.TB, d *Device, g *slowGraph) {
	t.Helper()
	for i, n := range g.nodes {
		what, result := d.GraphNodeGet(n)
		ok(t, result)
		m.tokens[g] = append(m.tokens[g], what.Token)
		if g.child[i] == nil {
			continue
		}
		nodes, result := d.GraphGetNodes(what.Child)
		ok(t, result)
		g.child[i].nodes = nodes // those of the child graph's copy
		m.note(t, d, g.child[i])
	}
}

// calls counts, for each token, how often its function has begun, and keeps what lets it end.
type calls struct {
	mu    sync.Mutex
	begun map[uint64]int
	open  map[uint64][]func()
}

func (c *calls) call(token uint64, release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun[token]++
	c.open[token] = append(c.open[token], release)
}

// due counts, for each token, how often its function must have begun.
func (m *graphModel) due(finished map[int]bool) map[uint64]int {
	due := map[uint64]int{}
	for op, set := range m.before {
		begun := true
		for p := range set {
			begun = begun && finished[p]
		}
		if begun {
			due[m.token[op]]++
		}
	}
	return due
}

// finish completes an operation that has begun.
func (m *graphModel) finish(c *calls, finished map[int]bool, random *rand.Rand) {
	var list []int
	for op, set := range m.before {
		begun := !finished[op]
		for p := range set {
			begun = begun && finished[p]
		}
		if begun {
			list = append(list, op)
		}
	}
	if len(list) == 0 {
		return
	}
	op := list[random.IntN(len(list))]
	finished[op] = true
	c.mu.Lock()
	open := c.open[m.token[op]]
	c.open[m.token[op]] = open[1:]
	c.mu.Unlock()
	open[0]()
}

func TestGraphsAgreeWithSlowGraphs(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			d := newDevice(t, Options{})
			c := &calls{begun: map[uint64]int{}, open: map[uint64][]func(){}}
			m := &graphModel{token: map[int]uint64{}, tokens: map[*slowGraph][]uint64{},
				graphs: map[*slowGraph]map[int]bool{}}
			var graphs []*slowGraph
			var execs []gpubackend.GraphExec
			var streams []gpubackend.Stream
			for range 3 {
				g := randomGraph(t, d, random, c.call, 2)
				m.note(t, d, g)
				e, result := d.GraphInstantiateWithFlags(g.handle, 0)
				ok(t, result)
				ok(t, d.GraphDestroy(g.handle))
				graphs, execs = append(graphs, g), append(execs, e)
				streams = append(streams, newStream(t, d, 1))
				m.streams = append(m.streams, map[int]bool{})
			}
			finished := map[int]bool{}
			for range 40 {
				if s, g := random.IntN(3), random.IntN(3); random.IntN(3) == 0 {
					ok(t, d.GraphLaunch(execs[g], streams[s]))
					before := maps.Clone(m.streams[s])
					maps.Copy(before, m.graphs[graphs[g]])
					maps.Copy(before, graphs[g].run(m, before))
					m.streams[s], m.graphs[graphs[g]] = before, before
				} else {
					m.finish(c, finished, random)
				}
				synctest.Wait()
				c.mu.Lock()
				if due := m.due(finished); !maps.Equal(due, c.begun) {
					t.Fatalf("seed %d: begun %v, want %v", seed, c.begun, due)
				}
				c.mu.Unlock()
			}
			for range m.before {
				m.finish(c, finished, random)
				synctest.Wait()
			}
			ok(t, d.ContextQuery())
			for _, e := range execs {
				ok(t, d.GraphExecDestroy(e))
			}
			if d.Graphs.Held().Bytes != 0 {
				t.Errorf("%d bytes are still accounted for", d.Graphs.Held().Bytes)
			}
		})
	}
}
