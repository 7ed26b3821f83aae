// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"bytes"

	"github.com/paracuda/paracuda/gpubackend"
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

// nodeAttributes are the launch attributes that kernel nodes have: bits by CUlaunchAttributeID.
const nodeAttributes = 1<<cudaabi.LaunchAttributeAccessPolicyWindow |
	1<<cudaabi.LaunchAttributeCooperative |
	1<<cudaabi.LaunchAttributeClusterDimension |
	1<<cudaabi.LaunchAttributeClusterSchedulingPolicyPreference |
	1<<cudaabi.LaunchAttributePriority | 1<<cudaabi.LaunchAttributeMemSyncDomainMap |
	1<<cudaabi.LaunchAttributeMemSyncDomain | 1<<cudaabi.LaunchAttributePreferredClusterDimension |
	1<<cudaabi.LaunchAttributePreferredSharedMemoryCarveout

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
	if len(value) != cudaabi.LaunchAttributeValueSize || id > cudaabi.LastLaunchAttribute ||
		nodeAttributes>>id&1 == 0 {
		return gpubackend.InvalidValue
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

// GraphKernelNodeGetAttribute implements gpubackend.Driver. What was not set is zero.
func (d *Device) GraphKernelNodeGetAttribute(h gpubackend.GraphNode, id uint64, value []byte) gpubackend.Result {
	n, result := d.kernelNode(h)
	if result != gpubackend.Success {
		return result
	}
	if id > cudaabi.LastLaunchAttribute || nodeAttributes>>id&1 == 0 {
		return gpubackend.InvalidValue
	}
	clear(value)
	if entry := findAttribute(n.what.Launch.Attributes, id); entry != nil {
		copy(value, cudaabi.LaunchAttribute(entry).Value())
	}
	return gpubackend.Success
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
