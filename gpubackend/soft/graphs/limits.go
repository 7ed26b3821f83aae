// SPDX-License-Identifier: Apache-2.0

package graphs

import "github.com/paracuda/paracuda/gpubackend"

// Host memory of graphs, in bytes: what a graph, a node, an edge and a step of an executable graph
// count for.
const (
	graphBytes = 1024
	NodeBytes  = 1024
	edgeBytes  = 16
	StepBytes  = 128
	// conditionBytes is what a conditional handle counts for.
	conditionBytes = 128
	// MaxBytes is how much all graphs of a device may take.
	MaxBytes = 256 << 20
	// MaxSteps is how many tasks a launch of an executable graph may queue.
	MaxSteps = 1 << 16
)

// Charge accounts for memory of graphs.
func (x *Graphs) Charge(bytes int) gpubackend.Result {
	if bytes > MaxBytes-x.charged || bytes > 0 && x.options.Host.Take(uint64(bytes)) != nil {
		return gpubackend.OutOfMemory
	}
	if bytes < 0 {
		x.options.Host.Give(uint64(-bytes))
	}
	x.charged += bytes
	return gpubackend.Success
}

// Discharge takes back what Charge counted.
func (x *Graphs) Discharge(bytes int) {
	x.options.Host.Give(uint64(bytes))
	x.charged -= bytes
}

// bytes is what a node counts for, without its child graph.
func (n *Node) bytes() int { return NodeBytes + edgeBytes*len(n.After) + held(&n.What) }

// held is how many bytes a node's description points to.
func held(what *gpubackend.Node) int {
	return len(what.Launch.Parameters) + len(what.Launch.Attributes) + len(what.Pool) +
		len(what.Access) + len(what.Ops)
}

// Bytes is what a graph counts for, with all that is in it.
func (g *Graph) Bytes() int {
	sum := graphBytes
	for _, n := range g.Nodes {
		sum += n.bytes()
		for _, inner := range n.Inner {
			sum += inner.Bytes()
		}
	}
	return sum
}

// replace changes what a node does.
func (x *Graphs) replace(n *Node, what gpubackend.Node) gpubackend.Result {
	if result := x.Charge(held(&what) - held(&n.What)); result != gpubackend.Success {
		return result
	}
	n.What = what
	return gpubackend.Success
}
