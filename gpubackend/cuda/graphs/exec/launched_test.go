// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/activity"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// function is a node that calls a host function.
func function(token uint64) *gpubackend.Node {
	return &gpubackend.Node{Type: gpubackend.NodeHost, Token: token,
		Call: func(_ uint64, release func()) { release() }}
}

const stream = 32

// launch makes a graph executable and launches it.
func (r *rig) launch(g gpubackend.Graph, s gpubackend.Stream) gpubackend.GraphExec {
	e := r.instantiate(g)
	r.contexts.Current().Work.Touch(s)
	r.must(r.GraphLaunch(e, s))
	return e
}

// TestHeldByLaunchedGraphs: a stream counts as held by a host function only if nothing else of its
// graph can go on.
func TestHeldByLaunchedGraphs(t *testing.T) {
	type nodes = []gpubackend.GraphNode
	const token = 7
	for _, test := range []struct {
		name string
		do   func(r *rig)
		want bool
	}{
		{"alone", func(r *rig) {
			g := r.create()
			r.add(g, function(token))
			r.launch(g, stream)
		}, true},
		{"in a row", func(r *rig) {
			g := r.create()
			r.add(g, fill(2), r.add(g, function(token), r.add(g, fill(1))))
			r.launch(g, stream)
		}, true},
		{"where branches meet", func(r *rig) {
			g := r.create()
			f := r.add(g, function(token), r.add(g, fill(1)), r.add(g, fill(2)))
			r.add(g, fill(3), f)
			r.add(g, fill(4), f)
			r.launch(g, stream)
		}, true},
		{"in a branch", func(r *rig) {
			g := r.create()
			first := r.add(g, fill(1))
			r.add(g, function(token), first)
			r.add(g, fill(2), first)
			r.launch(g, stream)
		}, false},
		{"behind an edge that isn't an ordinary one", func(r *rig) {
			g := r.create()
			a, b := r.add(g, fill(1)), r.add(g, function(token))
			edge := make([]byte, edgeBytes)
			edge[2] = 1
			r.must(r.GraphAddDependencies(g, nodes{a}, nodes{b}, edge))
			r.launch(g, stream)
		}, false},
		{"two nodes of one function", func(r *rig) {
			g := r.create()
			r.add(g, function(token), r.add(g, function(token)))
			r.launch(g, stream)
		}, false},
		{"in a graph in a graph", func(r *rig) {
			inner, g := r.create(), r.create()
			r.add(inner, function(token))
			r.add(g, &gpubackend.Node{Type: gpubackend.NodeGraph, Child: inner})
			r.launch(g, stream)
		}, false},
		{"and in a graph in a graph", func(r *rig) {
			inner, g := r.create(), r.create()
			r.add(inner, function(token))
			n := r.add(g, &gpubackend.Node{Type: gpubackend.NodeGraph, Child: inner})
			r.add(g, function(token), n)
			r.launch(g, stream)
		}, false},
		{"beside a launch that can't have called it", func(r *rig) {
			g, other := r.create(), r.create()
			r.add(g, function(token))
			r.add(other, function(token+1))
			r.launch(g, stream)
			r.launch(other, stream+1)
		}, true},
		{"beside one of another graph that can", func(r *rig) {
			g, other := r.create(), r.create()
			r.add(g, function(token))
			r.add(other, function(token))
			r.launch(g, stream)
			r.launch(other, stream+1)
		}, false},
		{"the program's graph is changed after that", func(r *rig) {
			g := r.create()
			n := r.add(g, function(token))
			r.launch(g, stream)
			r.must(r.GraphNodeSet(n, function(token+1)))
		}, true},
		{"it is destroyed meanwhile", func(r *rig) {
			g := r.create()
			r.add(g, function(token))
			r.must(r.GraphExecDestroy(r.launch(g, stream)))
		}, false},
		{"it is updated meanwhile", func(r *rig) {
			g := r.create()
			r.add(g, function(token))
			_, _, _, result := r.GraphExecUpdate(g, r.launch(g, stream))
			r.must(result)
		}, false},
		{"its node is set meanwhile", func(r *rig) {
			g := r.create()
			n := r.add(g, function(token))
			r.must(r.GraphExecNodeSet(r.launch(g, stream), n, function(token)))
		}, false},
		{"launched after its node was set", func(r *rig) {
			g := r.create()
			n := r.add(g, function(token+1))
			e := r.instantiate(g)
			r.must(r.GraphExecNodeSet(e, n, function(token)))
			r.contexts.Current().Work.Touch(stream)
			r.must(r.GraphLaunch(e, stream))
		}, true},
		{"by a graph that kernels launch", func(r *rig) {
			g := r.create()
			r.add(g, function(token))
			r.execs[r.launch(g, stream)].flags = cudaabi.GraphInstantiateFlagDeviceLaunch
		}, false},
		{"all was idle before", func(r *rig) {
			g := r.create()
			r.add(g, function(token))
			e := r.launch(g, stream+1)
			r.contexts.Current().Work.Done(stream + 1)
			r.must(r.GraphLaunch(e, stream))
			r.contexts.Current().Work.Touch(stream)
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			test.do(r)
			var want []activity.Place
			if test.want {
				want = []activity.Place{{Stream: stream}}
			}
			if got := r.Held([]uint64{token}); !slices.Equal(got, want) {
				t.Errorf("%v are held, want %v", got, want)
			}
		})
	}
}
