// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// checkNode refuses what could not be run.
func (x *Graphs) checkNode(n *gpubackend.Node) gpubackend.Result {
	switch n.Type {
	case gpubackend.NodeMemFree:
		if x.memory[n.Address] == nil {
			return gpubackend.InvalidValue
		}
		return gpubackend.Success
	case gpubackend.NodeConditional:
		return x.checkConditional(n)
	case gpubackend.NodeGraph, gpubackend.NodeEmpty, gpubackend.NodeMemAlloc:
		return gpubackend.Success
	}
	return x.options.Check(n)
}

// GraphNodeGetType implements gpubackend.Driver.
func (x *Graphs) GraphNodeGetType(h gpubackend.GraphNode) (uint64, gpubackend.Result) {
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(n.What.Type), gpubackend.Success
}

// GraphNodeGet implements gpubackend.Driver.
func (x *Graphs) GraphNodeGet(h gpubackend.GraphNode) (*gpubackend.Node, gpubackend.Result) {
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return &n.What, gpubackend.Success
}

// GraphNodeSet implements gpubackend.Driver.
func (x *Graphs) GraphNodeSet(h gpubackend.GraphNode, what *gpubackend.Node) gpubackend.Result {
	n, result := x.FindNode(h)
	if result != gpubackend.Success {
		return result
	}
	return x.SetNode(n, what)
}

// settable says whether the parameters of a type of node can be changed.
func settable(t gpubackend.NodeType) bool {
	return t != gpubackend.NodeGraph && t != gpubackend.NodeMemAlloc &&
		t != gpubackend.NodeMemFree &&
		t != gpubackend.NodeConditional
}

// SetNode changes what a node does. Attributes of a launch are set by a call of their own.
func (x *Graphs) SetNode(n *Node, what *gpubackend.Node) gpubackend.Result {
	if n.What.Type != what.Type || !settable(what.Type) {
		return gpubackend.InvalidValue
	}
	next := detached(what)
	next.Launch.Attributes = n.What.Launch.Attributes
	if result := x.checkNode(&next); result != gpubackend.Success {
		return result
	}
	return x.replace(n, next)
}

// maxCarveout is the largest share of shared memory, in percent.
const maxCarveout = 100

// checkNodeAttribute refuses values that no kernel node has, as driver 580 does.
func checkNodeAttribute(id uint64, value []byte) gpubackend.Result {
	if len(value) != cudaabi.LaunchAttributeValueSize || !allowed.NodeAttribute.Has(id) {
		return gpubackend.InvalidValue
	}
	v := cudaabi.LaunchAttributeValue(value)
	x, y, z := v.ClusterDimX(), v.ClusterDimY(), v.ClusterDimZ() // x: where the others have theirs
	bad := false
	switch id {
	case cudaabi.LaunchAttributeClusterDimension:
		if min(x, y, z) == 0 && max(x, y, z) > 0 {
			return gpubackend.InvalidClusterSize
		}
	case cudaabi.LaunchAttributePreferredClusterDimension:
		bad = min(x, y, z) == 0
	case cudaabi.LaunchAttributeMemSyncDomain, cudaabi.LaunchAttributeNvlinkUtilCentricScheduling:
		bad = x > 1
	case cudaabi.LaunchAttributePreferredSharedMemoryCarveout:
		bad = x > maxCarveout
	case cudaabi.LaunchAttributeDeviceUpdatableKernelNode:
		bad = slices.Max(value) > 0
	}
	if bad {
		return gpubackend.InvalidValue
	}
	return gpubackend.Success
}

// unsetAttribute writes what a node reports for an attribute that was not set, if it reports
// anything.
func unsetAttribute(id uint64, value []byte) gpubackend.Result {
	clear(value)
	switch {
	case id == cudaabi.LaunchAttributePreferredClusterDimension,
		id == cudaabi.LaunchAttributeNvlinkUtilCentricScheduling:
		return gpubackend.InvalidValue
	case id == cudaabi.LaunchAttributeMemSyncDomainMap && len(value) > 1:
		value[1] = 1 // the default domain is 0, the remote one 1
	}
	return gpubackend.Success
}

// kernelNode finds a kernel node.
func (x *Graphs) kernelNode(h gpubackend.GraphNode) (*Node, gpubackend.Result) {
	n, result := x.FindNode(h)
	if result == gpubackend.Success && n.What.Type != gpubackend.NodeKernel {
		return nil, gpubackend.InvalidValue
	}
	return n, result
}

// GraphKernelNodeSetAttribute implements gpubackend.Driver.
func (x *Graphs) GraphKernelNodeSetAttribute(
	h gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	n, result := x.kernelNode(h)
	if result != gpubackend.Success {
		return result
	}
	result = checkNodeAttribute(id, value)
	if result != gpubackend.Success || id == cudaabi.LaunchAttributeDeviceUpdatableKernelNode {
		return result
	}
	list := bytes.Clone(n.What.Launch.Attributes)
	entry := findAttribute(list, id)
	if entry == nil {
		list = append(list, make([]byte, cudaabi.LaunchAttributeSize)...)
		entry = list[len(list)-cudaabi.LaunchAttributeSize:]
		cudaabi.LaunchAttribute(entry).SetID(uint32(id))
	}
	copy(cudaabi.LaunchAttribute(entry).Value(), value)
	return x.setAttributes(n, list)
}

// setAttributes gives a kernel node other attributes, if it can be launched with them.
func (x *Graphs) setAttributes(n *Node, list []byte) gpubackend.Result {
	next := n.What
	next.Launch.Attributes = list
	if result := x.checkNode(&next); result != gpubackend.Success {
		return result
	}
	return x.replace(n, next)
}

// findAttribute returns an attribute in a list of CUlaunchAttribute, or nil.
func findAttribute(list []byte, id uint64) []byte {
	for ; len(list) >= cudaabi.LaunchAttributeSize; list = list[cudaabi.LaunchAttributeSize:] {
		if uint64(cudaabi.LaunchAttribute(list).ID()) == id {
			return list[:cudaabi.LaunchAttributeSize]
		}
	}
	return nil
}

// GraphKernelNodeGetAttribute implements gpubackend.Driver.
func (x *Graphs) GraphKernelNodeGetAttribute(
	h gpubackend.GraphNode, id uint64, value []byte,
) gpubackend.Result {
	n, result := x.kernelNode(h)
	if result != gpubackend.Success {
		return result
	}
	if !allowed.NodeAttribute.Has(id) {
		return gpubackend.InvalidValue
	}
	if entry := findAttribute(n.What.Launch.Attributes, id); entry != nil {
		copy(value, cudaabi.LaunchAttribute(entry).Value())
		return gpubackend.Success
	}
	return unsetAttribute(id, value)
}

// GraphKernelNodeCopyAttributes implements gpubackend.Driver.
func (x *Graphs) GraphKernelNodeCopyAttributes(dst, src gpubackend.GraphNode) gpubackend.Result {
	to, result := x.kernelNode(dst)
	if result != gpubackend.Success {
		return result
	}
	from, result := x.kernelNode(src)
	if result != gpubackend.Success {
		return result
	}
	return x.setAttributes(to, from.What.Launch.Attributes)
}
