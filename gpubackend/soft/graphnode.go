// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"
	"slices"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/allowed"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// checkNode refuses what could not be run.
func (d *Device) checkNode(n *gpubackend.Node) gpubackend.Result {
	switch n.Type {
	case gpubackend.NodeKernel:
		_, _, result := d.prepare(&n.Launch, uint32(d.options.Multiprocessors))
		return result
	case gpubackend.NodeMemcpy:
		m, result := copyMovement(&n.Copy)
		if result != gpubackend.Success {
			return result
		}
		return d.checkMovement(&m)
	case gpubackend.NodeMemset:
		m, result := fillMovement(&n.Fill)
		if result != gpubackend.Success {
			return result
		}
		return d.checkMovement(&m)
	case gpubackend.NodeEventWait, gpubackend.NodeEventRecord:
		e, result := d.event(n.Event)
		if result == gpubackend.Success && e.shared != nil {
			result = gpubackend.NotSupported // a graph's tasks know those of this process only
		}
		return result
	case gpubackend.NodeMemFree:
		if d.graphMemory[n.Address] == nil {
			return gpubackend.InvalidValue
		}
		return gpubackend.Success
	case gpubackend.NodeConditional:
		return d.checkConditional(n)
	case gpubackend.NodeHost, gpubackend.NodeGraph, gpubackend.NodeEmpty, gpubackend.NodeMemAlloc:
		return gpubackend.Success
	}
	return gpubackend.NotSupported
}

// GraphNodeGetType implements gpubackend.Driver.
func (d *Device) GraphNodeGetType(h gpubackend.GraphNode) (uint64, gpubackend.Result) {
	n, result := d.node(h)
	if result != gpubackend.Success {
		return 0, result
	}
	return uint64(n.what.Type), gpubackend.Success
}

// GraphNodeGet implements gpubackend.Driver.
func (d *Device) GraphNodeGet(h gpubackend.GraphNode) (*gpubackend.Node, gpubackend.Result) {
	n, result := d.node(h)
	if result != gpubackend.Success {
		return nil, result
	}
	return &n.what, gpubackend.Success
}

// GraphNodeSet implements gpubackend.Driver.
func (d *Device) GraphNodeSet(h gpubackend.GraphNode, what *gpubackend.Node) gpubackend.Result {
	n, result := d.node(h)
	if result != gpubackend.Success {
		return result
	}
	return d.setNode(n, what)
}

// settable says whether the parameters of a type of node can be changed.
func settable(t gpubackend.NodeType) bool {
	return t != gpubackend.NodeGraph && t != gpubackend.NodeMemAlloc && t != gpubackend.NodeMemFree && t != gpubackend.NodeConditional
}

// setNode changes what a node does. Attributes of a launch are set for themselves.
func (d *Device) setNode(n *node, what *gpubackend.Node) gpubackend.Result {
	if n.what.Type != what.Type || !settable(what.Type) {
		return gpubackend.InvalidValue
	}
	next := detached(what)
	next.Launch.Attributes = n.what.Launch.Attributes
	if result := d.checkNode(&next); result != gpubackend.Success {
		return result
	}
	return d.replace(n, next)
}

// attributeNVLink is the attribute to schedule with regard to NVLink, which CUDA 12.4 doesn't know.
const attributeNVLink = 16

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
	case cudaabi.LaunchAttributeMemSyncDomain, attributeNVLink:
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

// unsetAttribute puts what a node tells of an attribute that was not set, if it tells anything.
func unsetAttribute(id uint64, value []byte) gpubackend.Result {
	clear(value)
	switch {
	case id == cudaabi.LaunchAttributePreferredClusterDimension, id == attributeNVLink:
		return gpubackend.InvalidValue
	case id == cudaabi.LaunchAttributeMemSyncDomainMap && len(value) > 1:
		value[1] = 1 // the default domain is 0, the remote one 1
	}
	return gpubackend.Success
}

// kernelNode finds a kernel node.
func (d *Device) kernelNode(h gpubackend.GraphNode) (*node, gpubackend.Result) {
	n, result := d.node(h)
	if result == gpubackend.Success && n.what.Type != gpubackend.NodeKernel {
		return nil, gpubackend.InvalidValue
	}
	return n, result
}

// GraphKernelNodeSetAttribute implements gpubackend.Driver.
func (d *Device) GraphKernelNodeSetAttribute(h gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result {
	n, result := d.kernelNode(h)
	if result != gpubackend.Success {
		return result
	}
	result = checkNodeAttribute(id, value)
	if result != gpubackend.Success || id == cudaabi.LaunchAttributeDeviceUpdatableKernelNode {
		return result
	}
	list := bytes.Clone(n.what.Launch.Attributes)
	entry := findAttribute(list, id)
	if entry == nil {
		list = append(list, make([]byte, cudaabi.LaunchAttributeSize)...)
		entry = list[len(list)-cudaabi.LaunchAttributeSize:]
		cudaabi.LaunchAttribute(entry).SetID(uint32(id))
	}
	copy(cudaabi.LaunchAttribute(entry).Value(), value)
	return d.setAttributes(n, list)
}

// setAttributes gives a kernel node other attributes, if it can be launched with them.
func (d *Device) setAttributes(n *node, list []byte) gpubackend.Result {
	next := n.what
	next.Launch.Attributes = list
	if result := d.checkNode(&next); result != gpubackend.Success {
		return result
	}
	return d.replace(n, next)
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
func (d *Device) GraphKernelNodeGetAttribute(h gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result {
	n, result := d.kernelNode(h)
	if result != gpubackend.Success {
		return result
	}
	if !allowed.NodeAttribute.Has(id) {
		return gpubackend.InvalidValue
	}
	if entry := findAttribute(n.what.Launch.Attributes, id); entry != nil {
		copy(value, cudaabi.LaunchAttribute(entry).Value())
		return gpubackend.Success
	}
	return unsetAttribute(id, value)
}

// GraphKernelNodeCopyAttributes implements gpubackend.Driver.
func (d *Device) GraphKernelNodeCopyAttributes(dst, src gpubackend.GraphNode) gpubackend.Result {
	to, result := d.kernelNode(dst)
	if result != gpubackend.Success {
		return result
	}
	from, result := d.kernelNode(src)
	if result != gpubackend.Success {
		return result
	}
	return d.setAttributes(to, from.what.Launch.Attributes)
}
