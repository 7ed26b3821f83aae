// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// Conditions of graphs (CUDA driver API, cuGraphConditionalHandleCreate): a kernel sets one, a
// conditional node runs one of its bodies, or none, for it. condition is a
// CUgraphConditionalHandle.
type condition struct {
	handle  uint64
	graph   *graph // for which it was made
	node    *node  // whose bodies depend on it
	initial uint32
	assign  bool // each launch begins with the initial value
	value   atomic.Uint32
	users   int // its graph, nodes, launches in flight; guarded by conditions.mu
}

// conditions are all conditions, as kernels find them.
type conditions struct {
	mu   sync.RWMutex
	last uint64
	all  map[uint64]*condition
}

// conditionTag marks handles, so that a mix-up shows.
const conditionTag = 0xc04d << 48

// make makes a condition with one user.
func (c *conditions) make(g *graph, initial uint32, assign bool) *condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[uint64]*condition{}
	}
	c.last++
	x := &condition{handle: conditionTag | c.last, graph: g, initial: initial, assign: assign, users: 1}
	x.value.Store(initial)
	c.all[x.handle] = x
	return x
}

func (c *conditions) find(handle uint64) *condition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all[handle]
}

// set is called by kernels.
func (c *conditions) set(handle uint64, value uint32) bool {
	x := c.find(handle)
	if x != nil {
		x.value.Store(value)
	}
	return x != nil
}

func (c *conditions) hold(x *condition) {
	c.mu.Lock()
	x.users++
	c.mu.Unlock()
}

func (c *conditions) release(x *condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(c.all, x.handle)
	}
}

// GraphConditionalHandle implements gpubackend.Driver.
func (d *Device) GraphConditionalHandle(h gpubackend.Graph, value, flags uint64) (uint64, gpubackend.Result) {
	g, result := d.graph(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^cudaabi.GraphCondAssignDefault != 0 {
		return 0, gpubackend.InvalidValue
	}
	if result := d.charge(conditionBytes); result != gpubackend.Success {
		return 0, result
	}
	x := d.conditions.make(g, uint32(value), flags&cudaabi.GraphCondAssignDefault != 0)
	g.conditions = append(g.conditions, x)
	return x.handle, gpubackend.Success
}

// checkConditional checks a conditional node.
func (d *Device) checkConditional(n *gpubackend.Node) gpubackend.Result {
	x := d.conditions.find(n.Handle)
	most := map[uint64]uint64{cudaabi.GraphCondIf: 2, cudaabi.GraphCondWhile: 1,
		cudaabi.GraphCondSwitch: cudaabi.MaxConditionalBodies}[n.Kind]
	if x == nil || x.node != nil || n.Bodies == 0 || n.Bodies > most {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// giveBodies makes the graphs of a conditional node. Its condition is one of its graph, or of one
// that this lies in.
func (d *Device) giveBodies(n *node) gpubackend.Result {
	x := d.conditions.find(n.what.Handle)
	g := n.graph
	for g != x.graph {
		if g.owner == nil {
			return gpubackend.InvalidValue
		}
		g = g.owner.graph
	}
	for range n.what.Bodies {
		b, result := d.newGraph()
		if result != gpubackend.Success {
			for _, b := range n.inner {
				d.dropGraph(b)
			}
			return result
		}
		n.inner, b.owner = append(n.inner, b), n
	}
	n.condition, x.node = x, n
	d.conditions.hold(x)
	return gpubackend.Success
}

// hasConditional says whether a graph has a conditional node, or a handle for one.
func (g *graph) hasConditional() bool {
	return len(g.conditions) > 0 || slices.ContainsFunc(g.nodes, func(n *node) bool {
		return n.condition != nil || n.anyInner((*graph).hasConditional)
	})
}

// checkConditions says whether each handle of a graph is in use, and whether bodies consist of what
// is allowed there: no host functions, events and allocations (CUDA driver API,
// CUDA_CONDITIONAL_NODE_PARAMS).
func (g *graph) checkConditions() (status uint64, result gpubackend.Result) {
	for _, x := range g.conditions {
		if x.node == nil {
			return cudaabi.GraphInstantiateConditionalHandleUnused, gpubackend.InvalidValue
		}
	}
	for _, n := range g.nodes {
		for _, inner := range n.inner {
			if n.condition != nil && !inner.isBody() {
				return cudaabi.GraphInstantiateInvalidStructure, gpubackend.InvalidValue
			}
			if status, result = inner.checkConditions(); result != gpubackend.Success {
				return status, result
			}
		}
	}
	return cudaabi.GraphInstantiateSuccess, gpubackend.Success
}

// isBody says whether a graph may be the body of a conditional node.
func (g *graph) isBody() bool {
	return !slices.ContainsFunc(g.nodes, func(n *node) bool {
		switch n.what.Type {
		case gpubackend.NodeKernel, gpubackend.NodeMemcpy, gpubackend.NodeMemset, gpubackend.NodeEmpty, gpubackend.NodeConditional:
			return false
		case gpubackend.NodeGraph:
			return !n.inner[0].isBody()
		}
		return true
	})
}

// allConditions appends the conditions of a graph's nodes.
func (g *graph) allConditions(list []*condition) []*condition {
	for _, n := range g.nodes {
		if n.condition != nil {
			list = append(list, n.condition)
		}
		for _, inner := range n.inner {
			list = inner.allConditions(list)
		}
	}
	return list
}
