// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// checkValuesOfAttributes checks, as driver 580 has it, what is told of a node's attributes before
// they are set, and which values they take.
func checkValuesOfAttributes(t *testing.T, d *Device, n gpubackend.GraphNode) {
	const (
		good = gpubackend.Success
		bad  = gpubackend.InvalidValue
	)
	for _, x := range []struct {
		id          uint64
		unset       gpubackend.Result
		told        uint16
		zero, three gpubackend.Result
	}{
		{3, bad, 0, bad, bad}, {6, bad, 0, bad, bad},
		{9, good, 256, good, good}, {10, good, 0, good, bad}, {11, bad, 0, bad, bad},
		{13, good, 0, good, bad},
		{14, good, 0, good, good}, {16, bad, 0, good, bad},
	} {
		value := make([]byte, cudaabi.LaunchAttributeValueSize)
		want(t, d.GraphKernelNodeGetAttribute(n, x.id, value), x.unset)
		if got := binary.LittleEndian.Uint16(value); got != x.told {
			t.Errorf("attribute %d: %d, want %d", x.id, got, x.told)
		}
		clear(value)
		want(t, d.GraphKernelNodeSetAttribute(n, x.id, value), x.zero)
		value[0] = 3
		want(t, d.GraphKernelNodeSetAttribute(n, x.id, value), x.three)
	}
}

func TestKernelNodeAttributes(t *testing.T) {
	d := newDevice(t, Options{})
	g := newGraph(t, d)
	a := alloc(t, d, 4096)
	kernel := &gpubackend.Node{Type: gpubackend.NodeKernel, Launch: gpubackend.Launch{
		Function: getFunction(t, d, loadFile(t, d, "testdata/small.ptx"), "scale"),
		Grid:     [3]uint32{1, 1, 1},
		Block:    [3]uint32{8, 1, 1}, Parameters: append(params(a), 4),
	}}
	n, m, none := addNode(t, d, g, kernel), addNode(t, d, g, kernel), addNode(t, d, g, empty())
	value, got := make([]byte, cudaabi.LaunchAttributeValueSize),
		make([]byte, cudaabi.LaunchAttributeValueSize)
	value[0] = 1
	for _, x := range []struct {
		name string
		node gpubackend.GraphNode
		id   uint64
		want gpubackend.Result
	}{
		{"cooperative", n, cudaabi.LaunchAttributeCooperative, gpubackend.Success},
		{"priority", n, 8, gpubackend.Success},
		{"cooperative again", n, cudaabi.LaunchAttributeCooperative, gpubackend.Success},
		{"event", n, cudaabi.LaunchAttributeProgrammaticEvent, gpubackend.InvalidValue},
		{"unknown", n, 99, gpubackend.InvalidValue},
		{"of no kernel", none, 8, gpubackend.InvalidValue},
	} {
		if result := d.GraphKernelNodeSetAttribute(x.node, x.id, value); result != x.want {
			t.Errorf("%s: result %d, want %d", x.name, result, x.want)
		}
	}
	value[0] = 2
	want(t, d.GraphKernelNodeSetAttribute(n, cudaabi.LaunchAttributeClusterDimension, value),
		gpubackend.InvalidClusterSize)
	value[4], value[8] = 1, 1
	want(t, d.GraphKernelNodeSetAttribute(n, cudaabi.LaunchAttributeClusterDimension, value),
		gpubackend.NotSupported)
	value[4], value[8] = 0, 0
	want(t, d.GraphKernelNodeSetAttribute(n, 8, value[1:]), gpubackend.InvalidValue)
	ok(t, d.GraphKernelNodeCopyAttributes(m, n))
	for _, id := range []uint64{cudaabi.LaunchAttributeCooperative, 8, 1} {
		ok(t, d.GraphKernelNodeGetAttribute(m, id, got))
		if (got[0] == 1) != (id != 1) {
			t.Errorf("attribute %d: %d", id, got[0])
		}
	}
	checkValuesOfAttributes(t, d, addNode(t, d, g, kernel))
	// Setting a node's parameters leaves its attributes as they are.
	ok(t, d.GraphNodeSet(m, kernel))
	if what, _ := d.GraphNodeGet(m); len(what.Launch.Attributes) != 2*cudaabi.LaunchAttributeSize {
		t.Errorf("%d bytes of attributes", len(what.Launch.Attributes))
	}
	clone, result := d.GraphClone(g)
	ok(t, result)
	found, result := d.GraphNodeFindInClone(m, clone)
	ok(t, result)
	if kind, _ := d.GraphNodeGetType(found); kind != uint64(gpubackend.NodeKernel) {
		t.Errorf("type %d", kind)
	}
	want(t, d.GraphKernelNodeGetAttribute(found, cudaabi.LaunchAttributeProgrammaticEvent, got),
		gpubackend.InvalidValue)
	_, result = d.GraphNodeFindInClone(found, g)
	want(t, result, gpubackend.InvalidValue)
}
