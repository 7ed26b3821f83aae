// SPDX-License-Identifier: Apache-2.0

package graphs

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
type Condition struct {
	handle  uint64
	graph   *Graph // for which it was made
	node    *Node  // whose bodies depend on it
	Initial uint32
	Assign  bool // each launch begins with the initial value
	Value   atomic.Uint32
	users   int // its graph, nodes, launches in flight; guarded by conditions.mu
}

// conditionTable are all conditions, as kernels find them.
type conditionTable struct {
	mu   sync.RWMutex
	last uint64
	all  map[uint64]*Condition
}

// conditionTag marks handles, so that a mix-up shows.
const conditionTag = 0xc04d << 48

// make makes a condition with one user.
func (c *conditionTable) make(g *Graph, initial uint32, assign bool) *Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	return c.addLocked(conditionTag|c.last, g, initial, assign)
}

func (c *conditionTable) addLocked(
	handle uint64, g *Graph, initial uint32, assign bool,
) *Condition {
	if c.all == nil {
		c.all = map[uint64]*Condition{}
	}
	x := &Condition{handle: handle, graph: g, Initial: initial, Assign: assign, users: 1}
	x.Value.Store(initial)
	c.all[handle] = x
	return x
}

// mostConditions is more than any program makes.
const mostConditions = 1 << 40

// remake makes a condition that another device had, with one user, for a graph that isn't there
// yet; nil: no device can have had it.
func (c *conditionTable) remake(s *gpubackend.ConditionState) *Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := s.Handle - conditionTag
	if number == 0 || number > mostConditions || c.all[s.Handle] != nil {
		return nil
	}
	c.last = max(c.last, number)
	x := c.addLocked(s.Handle, &Graph{}, s.Initial, s.Assign)
	x.Value.Store(s.Value)
	return x
}

func (c *conditionTable) find(handle uint64) *Condition {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all[handle]
}

// set is called by kernels.
func (c *conditionTable) set(handle uint64, value uint32) bool {
	x := c.find(handle)
	if x != nil {
		x.Value.Store(value)
	}
	return x != nil
}

func (c *conditionTable) hold(x *Condition) {
	c.mu.Lock()
	x.users++
	c.mu.Unlock()
}

func (c *conditionTable) release(x *Condition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(c.all, x.handle)
	}
}

// HoldCondition keeps a condition until ReleaseCondition. Both may be called on any goroutine.
func (x *Graphs) HoldCondition(c *Condition) { x.conditions.hold(c) }

// ReleaseCondition gives up a condition that was held.
func (x *Graphs) ReleaseCondition(c *Condition) { x.conditions.release(c) }

// GraphConditionalHandle implements gpubackend.Driver.
func (x *Graphs) GraphConditionalHandle(
	h gpubackend.Graph, value, flags uint64,
) (uint64, gpubackend.Result) {
	g, result := x.Find(h)
	if result != gpubackend.Success {
		return 0, result
	}
	if flags&^cudaabi.GraphCondAssignDefault != 0 {
		return 0, gpubackend.InvalidValue
	}
	if result := x.Charge(conditionBytes); result != gpubackend.Success {
		return 0, result
	}
	c := x.conditions.make(g, uint32(value), flags&cudaabi.GraphCondAssignDefault != 0)
	g.conditions = append(g.conditions, c)
	return c.handle, gpubackend.Success
}

// mostBodies is how many graphs a conditional node may have, by its kind.
var mostBodies = map[uint64]uint64{cudaabi.GraphCondIf: 2, cudaabi.GraphCondWhile: 1,
	cudaabi.GraphCondSwitch: cudaabi.MaxConditionalBodies}

// checkConditional checks a conditional node.
func (x *Graphs) checkConditional(n *gpubackend.Node) gpubackend.Result {
	c := x.conditions.find(n.Handle)
	if c == nil || c.node != nil || n.Bodies == 0 || n.Bodies > mostBodies[n.Kind] {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// suits says whether a condition belongs to a graph, or to one that contains it.
func (c *Condition) suits(g *Graph) bool {
	for g != c.graph {
		if g.Owner == nil {
			return false
		}
		g = g.Owner.graph
	}
	return true
}

// giveBodies makes the graphs of a conditional node.
func (x *Graphs) giveBodies(n *Node) gpubackend.Result {
	c := x.conditions.find(n.What.Handle)
	if !c.suits(n.graph) {
		return gpubackend.InvalidValue
	}
	for range n.What.Bodies {
		b, result := x.Make()
		if result != gpubackend.Success {
			for _, b := range n.Inner {
				x.Remove(b)
			}
			return result
		}
		n.Inner, b.Owner = append(n.Inner, b), n
	}
	n.Condition, c.node = c, n
	x.conditions.hold(c)
	return gpubackend.Success
}

// hasConditional says whether a graph has a conditional node, or a handle for one.
func (g *Graph) hasConditional() bool {
	return len(g.conditions) > 0 || slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		return n.Condition != nil || n.anyInner((*Graph).hasConditional)
	})
}

// CheckConditions says whether each handle of a graph is in use, and whether bodies have only nodes
// that are allowed there: no host functions, events or allocations (CUDA driver API,
// CUDA_CONDITIONAL_NODE_PARAMS).
func (g *Graph) CheckConditions() (status uint64, result gpubackend.Result) {
	for _, x := range g.conditions {
		if x.node == nil {
			return cudaabi.GraphInstantiateConditionalHandleUnused, gpubackend.InvalidValue
		}
	}
	for _, n := range g.Nodes {
		for _, inner := range n.Inner {
			if n.Condition != nil && !inner.isBody() {
				return cudaabi.GraphInstantiateInvalidStructure, gpubackend.InvalidValue
			}
			if status, result = inner.CheckConditions(); result != gpubackend.Success {
				return status, result
			}
		}
	}
	return cudaabi.GraphInstantiateSuccess, gpubackend.Success
}

// isBody says whether a graph may be the body of a conditional node.
func (g *Graph) isBody() bool {
	return !slices.ContainsFunc(g.Nodes, func(n *Node) bool {
		switch n.What.Type {
		case gpubackend.NodeKernel, gpubackend.NodeMemcpy, gpubackend.NodeMemset,
			gpubackend.NodeEmpty,
			gpubackend.NodeConditional:
			return false
		case gpubackend.NodeGraph:
			return !n.Inner[0].isBody()
		}
		return true
	})
}

// AllConditions appends the conditions of a graph's nodes.
func (g *Graph) AllConditions(list []*Condition) []*Condition {
	for _, n := range g.Nodes {
		if n.Condition != nil {
			list = append(list, n.Condition)
		}
		for _, inner := range n.Inner {
			list = inner.AllConditions(list)
		}
	}
	return list
}
