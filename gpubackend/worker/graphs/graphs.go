// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Driver is what Graphs use of gpubackend.Driver.
type Driver interface {
	StreamCaptureInfo(s gpubackend.Stream, edges []byte) (
		status, id uint64, graph gpubackend.Graph, after []gpubackend.GraphNode,
		result gpubackend.Result,
	)
	gpubackend.SavingGraphs
}

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Kernels finds functions, and their handles.
type Kernels interface {
	Find(c *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result)
	Name(f gpubackend.Function) uint64
}

// Config is what Graphs need.
type Config struct {
	Driver  Driver
	Objects *object.Table
	Streams Streams
	Kernels Kernels
	// Keep returns what is called when a host function of a graph is due.
	Keep func(token uint64) (gpubackend.HostCall, gpubackend.Result)
}

// Graphs are the guest's names of graphs and nodes.
type Graphs struct {
	Config
	graph map[gpubackend.Graph]uint64
	node  map[gpubackend.GraphNode]uint64
	inner map[uint64][]uint64 // the graphs in a node, which end with it; all by handle
	// the graph that was named last: the nodes that are named next belong to it
	recent uint64
	// the node that was named last: the bodies that are named next are in it
	recentNode uint64

	full     bool // the current call found no room for a name
	captures captures
}

// New returns Graphs without names.
func New(c Config) *Graphs {
	return &Graphs{
		Config: c, graph: map[gpubackend.Graph]uint64{}, node: map[gpubackend.GraphNode]uint64{},
		inner:    map[uint64][]uint64{},
		captures: captures{},
	}
}

// Steps are what this room does around the handlers of others.
func (s *Graphs) Steps() call.Steps {
	steps := call.Steps{}
	for _, op := range naming {
		steps[op] = s.bound
	}
	steps[gpubackend.OpStreamBeginCapture] = call.Around(
		command.DecodeStreamBeginCapture, s.beginCapture)
	steps[gpubackend.OpStreamBeginCaptureToGraph] = call.Around(
		command.DecodeStreamBeginCaptureToGraph, s.beginCaptureToGraph)
	steps[gpubackend.OpStreamDestroy] = call.Around(command.DecodeStreamDestroy, s.endStream)
	steps[gpubackend.OpStreamEndCapture] = call.Around(command.DecodeStreamEndCapture, s.endCapture)
	return steps
}

// Names is how many graphs and nodes have names.
func (s *Graphs) Names() int { return len(s.graph) + len(s.node) }

// Captures is how many captures are under way, as far as is known.
func (s *Graphs) Captures() int { return len(s.captures) }
