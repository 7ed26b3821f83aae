// SPDX-License-Identifier: Apache-2.0

// Package functions executes the functions of the driver API that need nothing of the worker's own:
// decode, look up, call, answer. It is generated from gpubackend/api.
//
// The worker's loop owns a Functions, which keeps nothing. All words are the guest's: scalars are
// checked against the sets of package allowed, structures by package known, and handles are looked
// up. A function that makes an object is refused before the driver is asked, if there is no room
// for another of its kind.
package functions

import (
	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// Streams finds a stream that the guest names.
type Streams interface {
	Find(c *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result)
}

// Kernels finds a function, or the function of a kernel.
type Kernels interface {
	Find(c *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result)
}

// Graphs has the names of graphs and nodes, and the records of nodes.
type Graphs interface {
	FindGraphNodes(c *call.Call, i int) ([]gpubackend.GraphNode, gpubackend.Result)
	DecodeNode(c *call.Call, i int) (*gpubackend.Node, gpubackend.Result)
	EncodeNode(to []byte, n *gpubackend.Node, handle uint64) uint64
	NameGraph(g gpubackend.Graph, parent uint64) uint64
	NameGraphs(to []byte, graphs []gpubackend.Graph, of uint64) uint64
	NameGraphNode(n gpubackend.GraphNode, of uint64) uint64
	NameGraphNodes(to []byte, nodes []gpubackend.GraphNode, of uint64) uint64
	ForgetGraph(handle uint64)
	ForgetGraphNode(handle uint64)
}

// Config is what Functions need.
type Config struct {
	Driver  gpubackend.Functions
	Objects *object.Table
	Streams Streams
	Kernels Kernels
	Graphs  Graphs
	// Home is the context that owns what is made in a context.
	Home func(context uint64) uint64
}

// Functions executes what is described.
type Functions struct{ Config }

// New returns a Functions.
func New(c Config) *Functions { return &Functions{c} }
