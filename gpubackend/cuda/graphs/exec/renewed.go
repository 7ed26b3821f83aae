// SPDX-License-Identifier: Apache-2.0

package exec

import (
	"maps"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
)

// RenewGraphs implements gpubackend.SavingGraphs. The driver looks at the registrations of host
// memory when it makes a node. If one is replaced, a copy ends with CUDA_ERROR_LAUNCH_FAILED, also
// in a graph that is made executable afterwards: an H100 showed that. So such nodes are set again,
// to what they are. An executable graph is made again, since the driver changes only copies of one
// dimension in those that there are. It is assumed that the driver looks again when a node is set;
// that fills and memory operations need it, too, isn't known.
func (x *Exec) RenewGraphs(list []gpubackend.Graph) (
	execs map[gpubackend.GraphExec]gpubackend.GraphExec, r gpubackend.Result,
) {
	if len(list)+len(x.execs) == 0 {
		return nil, gpubackend.Success
	}
	c, err := x.only()
	if err != nil {
		return nil, gpubackend.InvalidContext
	}
	r = x.contexts.In(c, func() (r gpubackend.Result) {
		for _, g := range list {
			if _, r = x.renew(g, maxDepth); r != gpubackend.Success {
				return r
			}
		}
		execs, r = x.renewExecs()
		return r
	})
	return execs, r
}

// renew sets those nodes of a graph again that use host memory. some says that there are such.
func (x *Exec) renew(g gpubackend.Graph, depth int) (some bool, r gpubackend.Result) {
	if depth == 0 {
		return false, gpubackend.InvalidValue
	}
	list, r := x.calls.GraphGetNodes(g)
	for _, n := range list {
		did, r := x.renewNode(n, depth)
		if r != gpubackend.Success {
			return some, r
		}
		some = some || did
	}
	return some, r
}

func (x *Exec) renewNode(n gpubackend.GraphNode, depth int) (did bool, r gpubackend.Result) {
	kind, r := x.calls.GraphNodeGetType(n)
	if r != gpubackend.Success {
		return false, r
	}
	switch gpubackend.NodeType(kind) {
	case gpubackend.NodeGraph:
		inner, r := x.graphIn(n)
		if r != gpubackend.Success {
			return false, r
		}
		return x.renew(inner, depth-1)
	case gpubackend.NodeMemcpy, gpubackend.NodeMemset, gpubackend.NodeMemOps:
		what, r := x.Graphs.GraphNodeGet(n)
		if r != gpubackend.Success || !x.OnHost(what) {
			return false, r
		}
		return true, x.Graphs.GraphNodeSet(n, what)
	}
	return false, gpubackend.Success
}

// renewExecs makes executable graphs again whose nodes use host memory.
func (x *Exec) renewExecs() (
	map[gpubackend.GraphExec]gpubackend.GraphExec, gpubackend.Result,
) {
	execs := map[gpubackend.GraphExec]gpubackend.GraphExec{}
	for _, h := range slices.Sorted(maps.Keys(x.execs)) {
		e := x.execs[h]
		if !e.restored || e.now != e.made {
			return nil, gpubackend.InvalidValue // it is in use already
		}
		some, r := x.renew(e.now.graph, maxDepth)
		if r != gpubackend.Success {
			return nil, r
		}
		if !some {
			continue
		}
		if execs[h], r = x.renewExec(h, e); r != gpubackend.Success {
			return nil, r
		}
	}
	return execs, gpubackend.Success
}

// renewExec makes an executable graph again, of the same nodes.
func (x *Exec) renewExec(
	was gpubackend.GraphExec, e *executable,
) (gpubackend.GraphExec, gpubackend.Result) {
	is, r := x.Graphs.GraphInstantiateWithFlags(e.now.graph, e.flags&restoredFlags)
	if r == gpubackend.Success {
		r = x.disable(is, e)
	}
	if r != gpubackend.Success {
		return 0, r
	}
	delete(x.execs, was)
	x.execs[is] = e
	return is, x.Graphs.GraphExecDestroy(was)
}
