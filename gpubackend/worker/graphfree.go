// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/paracuda/paracuda/gpubackend"

// freeOfGraph frees, in stream order, memory that a graph allocated: only the driver knows when it may be allocated
// again. It does so by a graph of one node, since a node is the one way to free memory of a graph that doesn't wait.
// ok is false if the memory is no graph's.
func (w *Worker) freeOfGraph(address uint64, s gpubackend.Stream) (result gpubackend.Result, ok bool) {
	if !w.graphs.memory {
		return gpubackend.Success, false
	}
	g, result := w.driver.GraphCreate(0)
	if result != gpubackend.Success {
		return result, true
	}
	defer w.driver.GraphDestroy(g)
	free := &gpubackend.Node{Type: gpubackend.NodeMemFree, Address: address}
	if _, _, _, result = w.driver.GraphAddNode(g, nil, nil, free); result != gpubackend.Success {
		return gpubackend.Success, false
	}
	e, result := w.driver.GraphInstantiateWithFlags(g, 0)
	if result != gpubackend.Success {
		return result, true
	}
	result = w.driver.GraphLaunch(e, s)
	w.driver.GraphExecDestroy(e) // the launch goes on
	return result, true
}

// freeGraphs is MemFree of what no heap knows, and a graph may have allocated. It waits for all work, as MemFree does.
func (w *Worker) freeGraphs(c *call) gpubackend.Result {
	address := c.word(0)
	return w.whenIdle(c, func() (uint64, gpubackend.Result) {
		result, ok := w.freeOfGraph(address, gpubackend.DefaultStream)
		if !ok {
			result = gpubackend.InvalidValue
		}
		return 0, result
	})
}
