// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// hostFill is fill in the host's memory.
func hostFill(value uint64) *gpubackend.Node {
	n := fill(value)
	n.Fill.Dst = host
	return n
}

// seen are, of each node that fills memory, its value, and what it has seen of registrations.
func (f *fake) seen(g *fakeGraph) map[int]int {
	list := map[int]int{}
	for _, n := range g.nodes {
		if n.child == nil {
			list[int(cudaabi.GraphNodeParams(n.params).Memset().Value())] = n.seen
			continue
		}
		for value, seen := range f.seen(n.child) {
			list[value] = seen
		}
	}
	return list
}

// TestRenewed: nodes that use host memory are set again, in graphs and in graphs in these, and so
// is what is executable. It does what it did, and its nodes have their names.
func TestRenewed(t *testing.T) {
	r := newRig(t)
	inner, g, plain := r.create(), r.create(), r.create()
	r.add(inner, hostFill(3))
	off := r.add(g, hostFill(1))
	r.add(g, &gpubackend.Node{Type: gpubackend.NodeGraph, Child: inner}, r.add(g, fill(2), off))
	r.add(plain, fill(4))
	e, plainExec := r.instantiate(g), r.instantiate(plain)
	r.must(r.GraphNodeSetEnabled(e, off, 0))
	other, m, err := r.away([]gpubackend.Graph{inner, g, plain},
		[]gpubackend.GraphExec{e, plainExec})
	if err != nil {
		t.Fatal(err)
	}
	did := other.f.does(m.execs[e])
	other.f.registered++
	graphs := []gpubackend.Graph{m.graphs[inner], m.graphs[g], m.graphs[plain]}
	execs, result := other.RenewGraphs(graphs)
	other.must(result)
	is := execs[m.execs[e]]
	if len(execs) != 1 || is == 0 || other.f.execs[m.execs[e]] != nil {
		t.Fatalf("%v were made again", execs)
	}
	want := map[int]int{1: 1, 2: 0, 3: 1}
	for name, has := range map[string]*fakeGraph{
		"graph": other.f.graph(m.graphs[g]), "executable": other.f.execs[is].graph,
	} {
		if seen := other.f.seen(has); !reflect.DeepEqual(seen, want) {
			t.Errorf("%s: %v, want %v", name, seen, want)
		}
	}
	if does := other.f.does(is); !reflect.DeepEqual(does, did) {
		t.Errorf("it does %v and did %v", does, did)
	}
	other.must(other.GraphNodeSetEnabled(is, m.nodes[off], 1))
	if does := other.f.does(is); does[0] != 1 {
		t.Errorf("it does %v", does)
	}
	other.must(other.GraphExecNodeSet(is, m.nodes[off], fill(7)))
	if _, result := other.RenewGraphs(graphs); result == gpubackend.Success {
		t.Error("one that has been changed is made again")
	}
}

// TestNothingToRenew: there need be no context.
func TestNothingToRenew(t *testing.T) {
	r := newRig(t)
	r.must(r.contexts.DevicePrimaryCtxReset(0))
	if execs, result := r.RenewGraphs(nil); len(execs) > 0 || result != gpubackend.Success {
		t.Errorf("%v, %v", execs, result)
	}
}
