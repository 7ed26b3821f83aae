// SPDX-License-Identifier: Apache-2.0

package soft

import "github.com/paracuda/paracuda/gpubackend"

// Host memory of graphs, in bytes: what a graph, a node, an edge and a step of an executable graph count for.
const (
	graphBytes = 1024
	nodeBytes  = 1024
	edgeBytes  = 16
	stepBytes  = 128
	// conditionBytes is what a conditional handle counts for.
	conditionBytes = 128
	// maxGraphBytes is how much all graphs of a device may take.
	maxGraphBytes = 256 << 20
	// maxSteps is how many tasks a launch of an executable graph may queue.
	maxSteps = 1 << 16
)

// charge accounts for memory of graphs.
func (d *Device) charge(bytes int) gpubackend.Result {
	if bytes > maxGraphBytes-d.charged || bytes > 0 && d.options.HostMemory.Take(uint64(bytes)) != nil {
		return gpubackend.OutOfMemory
	}
	if bytes < 0 {
		d.options.HostMemory.Give(uint64(-bytes))
	}
	d.charged += bytes
	return gpubackend.Success
}

// discharge takes back what charge counted.
func (d *Device) discharge(bytes int) {
	d.options.HostMemory.Give(uint64(bytes))
	d.charged -= bytes
}

// bytes is what a node counts for, without its child graph.
func (n *node) bytes() int { return nodeBytes + edgeBytes*len(n.after) + held(&n.what) }

// held is how many bytes a node's description points to.
func held(what *gpubackend.Node) int {
	return len(what.Launch.Parameters) + len(what.Launch.Attributes) + len(what.Pool) + len(what.Access)
}

// bytes is what a graph counts for, with all that is in it.
func (g *graph) bytes() int {
	sum := graphBytes
	for _, n := range g.nodes {
		sum += n.bytes()
		for _, inner := range n.inner {
			sum += inner.bytes()
		}
	}
	return sum
}

// replace changes what a node does.
func (d *Device) replace(n *node, what gpubackend.Node) gpubackend.Result {
	if result := d.charge(held(&what) - held(&n.what)); result != gpubackend.Success {
		return result
	}
	n.what = what
	return gpubackend.Success
}
