// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// fake is a driver that reads each node as soon as it is added: what the node points to is gone
// then. Its graphs have the nodes that a test gives them.
type fake struct {
	Calls // what a test doesn't need
	room  *Graphs
	read  *gpubackend.Node

	offsets  []uint32
	layout   []byte
	memory   cmem.Memory // of a conditional node's bodies
	nodes    map[gpubackend.Graph][]gpubackend.Node
	launched int
	reserved uint64 // by graphs, and what of it is in use
	used     uint64
	takes    uint64 // what a launch reserves
}

func (f *fake) FuncOffsets(gpubackend.Function, []byte) []uint32 { return f.offsets }
func (f *fake) FuncParameters(
	gpubackend.Function,
) (layout []byte, end uint32, r gpubackend.Result) {
	return f.layout, 12, gpubackend.Success
}

func (f *fake) GraphAdd(
	_ gpubackend.Graph, _ []gpubackend.GraphNode, _ []byte, params cmem.Memory,
) (gpubackend.GraphNode, gpubackend.Result) {
	p := cudaabi.GraphNodeParams(params.Bytes())
	f.read = &gpubackend.Node{Type: gpubackend.NodeType(p.Type())}
	switch f.read.Type {
	case gpubackend.NodeMemAlloc:
		p.Alloc().SetDptr(0x7000)
	case gpubackend.NodeConditional:
		f.read.Handle, f.read.Kind, f.read.Bodies = p.Conditional().Handle(),
			uint64(p.Conditional().Type()), uint64(p.Conditional().Size())
		p.Conditional().SetPhGraphOut(f.memory.Address())
	}
	part := []byte(p.Alloc()) // all begin at the same place, and this is the longest
	if f.read.Type == gpubackend.NodeMemcpy {
		part = p.Memcpy().CopyParams()
	}
	return 9, f.room.decode(f.read, part)
}

func (f *fake) GraphGetNodes(
	g gpubackend.Graph,
) (list []gpubackend.GraphNode, r gpubackend.Result) {
	for i := range f.nodes[g] {
		list = append(list, gpubackend.GraphNode(uint64(g)<<8|uint64(i)))
	}
	return list, gpubackend.Success
}

func (f *fake) node(n gpubackend.GraphNode) *gpubackend.Node {
	return &f.nodes[gpubackend.Graph(n>>8)][n&255]
}

func (f *fake) GraphNodeGetType(n gpubackend.GraphNode) (uint64, gpubackend.Result) {
	return uint64(f.node(n).Type), gpubackend.Success
}

func (f *fake) GraphNodeGetParams(
	n gpubackend.GraphNode, t gpubackend.NodeType,
) (cmem.Memory, gpubackend.Result) {
	m := cmem.Allocate(cudaabi.GraphNodeParamsSize)
	switch t {
	case gpubackend.NodeMemAlloc:
		cudaabi.MemAllocNodeParams(m.Bytes()).SetBytesize(f.node(n).Bytes)
	case gpubackend.NodeGraph:
		cudaabi.ChildGraphNodeParams(m.Bytes()).SetGraph(uint64(f.node(n).Child))
	}
	return m, gpubackend.Success
}

func (f *fake) GraphInstantiateWithFlags(
	g gpubackend.Graph, _ uint64,
) (gpubackend.GraphExec, gpubackend.Result) {
	return gpubackend.GraphExec(g), gpubackend.Success
}
func (f *fake) GraphExecDestroy(gpubackend.GraphExec) gpubackend.Result {
	return gpubackend.Success
}
func (f *fake) GraphLaunch(gpubackend.GraphExec, gpubackend.Stream) gpubackend.Result {
	f.launched++
	f.reserved = max(f.reserved, f.takes)
	return gpubackend.Success
}
func (f *fake) DeviceGetGraphMemAttribute(device, attribute uint64) (uint64, gpubackend.Result) {
	switch {
	case device != contextstest.Native:
		return 0, gpubackend.Success
	case attribute == cudaabi.GraphMemAttrUsedMemCurrent:
		return f.used, gpubackend.Success
	}
	return f.reserved, gpubackend.Success
}
func (f *fake) DeviceGraphMemTrim(uint64) gpubackend.Result {
	f.reserved = f.used
	return gpubackend.Success
}
func (f *fake) MemFree(addr uint64) gpubackend.Result { return gpubackend.Result(addr & 1) }
func (f *fake) MemFreeAsync(addr uint64, _ gpubackend.Stream) gpubackend.Result {
	return gpubackend.Result(addr & 1)
}
func (f *fake) PointerAttribute(_, _ uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}

// counter is memory of a limit.
type counter struct{ limit, used, freed uint64 }

func (c *counter) Limit() uint64                       { return c.limit }
func (c *counter) HasRoomNow(_ int, bytes uint64) bool { return c.used+bytes <= c.limit }
func (c *counter) Recharge(_ int, had, now uint64)     { c.used += now - had }
func (c *counter) Over(int) bool                       { return c.used > c.limit }
func (c *counter) Reclaim() bool {
	gave := c.freed > 0
	c.used, c.freed = c.used-c.freed, 0
	return gave
}

func newGraphs(limit uint64) (*Graphs, *fake, *counter) {
	f, c := &fake{nodes: map[gpubackend.Graph][]gpubackend.Node{}}, &counter{limit: limit}
	x, list := contextstest.New(nil)
	ranges := copyable.New(f, x)
	ranges.SetWindow(1<<40, 1<<30, 1)
	f.room = New(f, x, list, ranges, c, Needs{
		HostNode: func(token uint64, _ gpubackend.HostCall) (function, data uint64,
			r gpubackend.Result) {
			return 0x1000, token, gpubackend.Success
		},
		FunctionOf: func(k gpubackend.Kernel) (gpubackend.Function, gpubackend.Result) {
			return gpubackend.Function(k), gpubackend.Success
		},
	})
	return f.room, f, c
}

// TestNodesAreReadAsTheyWereAdded, those that are reported by the driver as they are given to it.
func TestNodesAreReadAsTheyWereAdded(t *testing.T) {
	const at = 1 << 40
	pool := make([]byte, cudaabi.MemPoolPropsSize)
	pool[0] = 1
	for _, test := range []struct {
		name string
		node gpubackend.Node
		read func(n *gpubackend.Node) // how what is read differs
	}{
		{"empty", gpubackend.Node{Type: gpubackend.NodeEmpty}, nil},
		{"memset", gpubackend.Node{Type: gpubackend.NodeMemset,
			Fill: gpubackend.Fill{Dst: at, Pitch: 64, Value: 7, Element: 4, Width: 8, Height: 3}},
			nil},
		{"memcpy", gpubackend.Node{Type: gpubackend.NodeMemcpy, Copy: gpubackend.Box{
			Dst: at, DstPitch: 64, DstSlice: 128, Src: at + 4096, SrcPitch: 32, SrcSlice: 64,
			Width: 16, Height: 2, Depth: 3,
		}}, nil},
		{"memcpy of rows", gpubackend.Node{Type: gpubackend.NodeMemcpy, Copy: gpubackend.Box{
			Dst: at, DstPitch: 64, Src: at + 4096, SrcPitch: 8, Width: 16, Height: 2, Depth: 1,
		}}, func(n *gpubackend.Node) {
			n.Copy.DstSlice, n.Copy.SrcPitch, n.Copy.SrcSlice = 128, 16, 32
		}},
		// no function of ours
		{"host", gpubackend.Node{Type: gpubackend.NodeHost, Token: 5},
			func(n *gpubackend.Node) { n.Token = 0 }},
		{"graph", gpubackend.Node{Type: gpubackend.NodeGraph, Child: 3}, nil},
		{"event", gpubackend.Node{Type: gpubackend.NodeEventWait, Event: 4}, nil},
		{"record", gpubackend.Node{Type: gpubackend.NodeEventRecord, Event: 4}, nil},
		{"allocation",
			gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: 4096, Pool: pool,
				Access: bytes.Repeat([]byte{3}, 24)},
			func(n *gpubackend.Node) { n.Address = 0x7000 }},
		{"free", gpubackend.Node{Type: gpubackend.NodeMemFree, Address: 0x7000}, nil},
		{"memory operations",
			gpubackend.Node{Type: gpubackend.NodeMemOps, Flags: 2,
				Ops: bytes.Repeat([]byte{5}, 96)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, f, _ := newGraphs(0)
			node, address, _, r := x.GraphAddNode(1, nil, nil, &test.node)
			want := test.node
			if test.read != nil {
				test.read(&want)
			}
			if r != gpubackend.Success || node != 9 || address != 0 && address != 0x7000 {
				t.Fatalf("node %d at %#x, result %d", node, address, r)
			}
			if !reflect.DeepEqual(*f.read, want) {
				t.Errorf("read %+v\nwant %+v", *f.read, want)
			}
		})
	}
}

// TestKernelNodes keep their parameters, packed or each with a pointer.
func TestKernelNodes(t *testing.T) {
	layout := binary.LittleEndian.AppendUint32(nil, 0) // 8 bytes at 0, 4 at 8
	for _, v := range []uint32{8, 8, 4} {
		layout = binary.LittleEndian.AppendUint32(layout, v)
	}
	parameters := []byte("eight bytes4")
	for _, test := range []struct {
		name       string
		parameters []byte
		offsets    []uint32
	}{
		{"none", nil, nil}, {"packed", parameters, nil},
		{"with pointers", parameters, []uint32{0, 8}},
	} {
		x, f, _ := newGraphs(0)
		f.offsets, f.layout = test.offsets, layout
		n := gpubackend.Node{Type: gpubackend.NodeKernel, Launch: gpubackend.Launch{
			Function: 7, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Shared: 8,
			Parameters: test.parameters,
		}}
		if _, _, _, r := x.GraphAddNode(1, nil, nil, &n); r != gpubackend.Success {
			t.Fatalf("%s: %d", test.name, r)
		}
		if !reflect.DeepEqual(f.read.Launch, n.Launch) {
			t.Errorf("%s: %+v", test.name, f.read.Launch)
		}
	}
}

func TestConditionalNodes(t *testing.T) {
	x, f, _ := newGraphs(0)
	f.memory = cmem.Handles([]uint64{21, 22})
	defer f.memory.Free()
	n := gpubackend.Node{Type: gpubackend.NodeConditional, Handle: 77, Kind: 1, Bodies: 2}
	_, _, bodies, r := x.GraphAddNode(1, nil, nil, &n)
	if r != gpubackend.Success || len(bodies) != 2 || bodies[1] != 22 ||
		!reflect.DeepEqual(*f.read, n) {
		t.Errorf("bodies %v of %+v, result %d", bodies, f.read, r)
	}
	n.Bodies = cudaabi.MaxConditionalBodies + 1
	if _, _, _, r := x.GraphAddNode(1, nil, nil, &n); r != gpubackend.InvalidValue {
		t.Errorf("too many bodies: %d", r)
	}
}

// TestNodesOutOfReach aren't made.
func TestNodesOutOfReach(t *testing.T) {
	x, f, _ := newGraphs(0)
	for _, n := range []gpubackend.Node{
		{Type: gpubackend.NodeMemset,
			Fill: gpubackend.Fill{Dst: 8, Element: 1, Width: 1, Height: 1}},
		{Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{Dst: 1 << 40, Src: 8, Width: 1, Height: 1, Depth: 1}},
		{Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{Dst: 1 << 40, Src: 1 << 40, Height: 1, Depth: 1}},
	} {
		if _, _, _, r := x.GraphAddNode(1, nil, nil, &n); r != gpubackend.InvalidValue ||
			f.read != nil {
			t.Errorf("%+v: %d", n, r)
		}
		if x.GraphNodeSet(1, &n) != gpubackend.InvalidValue ||
			x.GraphExecNodeSet(1, 1, &n) != gpubackend.InvalidValue {
			t.Errorf("%+v: set", n)
		}
	}
}

// TestAllocationsNeedRoom: a graph is launched if what it and those in it allocate fits beside what
// is in use.
func TestAllocationsNeedRoom(t *testing.T) {
	const mib = 1 << 20
	x, f, c := newGraphs(100 * mib)
	allocation := gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: 30 * mib,
		Pool: make([]byte, cudaabi.MemPoolPropsSize)}
	if _, _, _, r := x.GraphAddNode(1, nil, nil, &allocation); r != gpubackend.Success {
		t.Fatalf("add: %d", r)
	}
	f.nodes[1] = []gpubackend.Node{allocation, {Type: gpubackend.NodeGraph, Child: 2},
		{Type: gpubackend.NodeEmpty}}
	f.nodes[2] = []gpubackend.Node{allocation}
	f.nodes[3] = []gpubackend.Node{{Type: gpubackend.NodeGraph, Child: 3}}
	f.nodes[4] = []gpubackend.Node{allocation, allocation, allocation, allocation}
	f.takes = 60 * mib
	e, r := x.GraphInstantiateWithFlags(1, 0)
	if r != gpubackend.Success || x.Allocating() != 1 || c.used != 0 {
		t.Fatalf("instantiate: %d, %d bytes count", r, c.used)
	}
	for g, want := range map[gpubackend.Graph]gpubackend.Result{3: gpubackend.NotSupported,
		4: gpubackend.OutOfMemory} {
		if _, r := x.GraphInstantiateWithFlags(g, 0); r != want {
			t.Errorf("graph %d: result %d", g, r)
		}
	}
	for _, step := range []struct {
		name    string
		prepare func()
		want    gpubackend.Result
		used    uint64
	}{
		{"first", func() {}, 0, 60 * mib},
		{"again", func() {}, 0, 60 * mib},
		{"beside others' memory", func() { c.used += 40 * mib }, 0, 100 * mib},
		{"while its memory is in use", func() { f.used = 60 * mib }, gpubackend.OutOfMemory,
			100 * mib},
		{"when others have freed theirs", func() { f.used, c.freed = 30*mib, 40*mib }, 0, 60 * mib},
	} {
		step.prepare()
		launched := f.launched
		if r := x.GraphLaunch(e, 0); r != step.want || c.used != step.used ||
			(r == 0) != (f.launched == launched+1) {
			t.Fatalf("%s: result %d, %d MiB count", step.name, r, c.used/mib)
		}
	}
	if !x.Trim() || x.Trim() || c.used != 30*mib {
		t.Errorf("%d MiB count after a trim", c.used/mib)
	}
	x.GraphExecDestroy(e)
	if f.used = 0; !x.Trim() || c.used != 0 || x.Allocating() != 0 {
		t.Errorf("%d MiB count in the end, %d graphs allocate", c.used/mib, x.Allocating())
	}
}

// TestFreeOfWhatNoGraphHas isn't the driver's.
func TestFreeOfWhatNoGraphHas(t *testing.T) {
	x, _, _ := newGraphs(0)
	n := gpubackend.Node{Type: gpubackend.NodeMemAlloc, Bytes: 4096,
		Pool: make([]byte, cudaabi.MemPoolPropsSize)}
	if x.FreeNow(0x7000) != gpubackend.InvalidValue ||
		x.GraphFree(0x7000, 0) != gpubackend.NotFound {
		t.Error("freed before it was allocated")
	}
	x.GraphAddNode(1, nil, nil, &n)
	// which the driver judges
	for addr, want := range map[uint64]gpubackend.Result{0x7000: 0,
		0x7001: gpubackend.InvalidValue} {
		if x.FreeNow(addr) != want || x.GraphFree(addr, 0) != want {
			t.Errorf("free at %#x", addr)
		}
	}
	if x.FreeNow(1<<40) != gpubackend.InvalidValue ||
		x.GraphFree(0x8000, 0) != gpubackend.NotFound {
		t.Error("other memory was freed")
	}
}

// TestOnHost: a node uses host memory if anything that it names is there.
func TestOnHost(t *testing.T) {
	const device, host = 1 << 40, 1 << 41
	x, _, _ := newGraphs(0)
	x.ranges.Host.Put(copyable.Span{Base: host, Bytes: 4096})
	ops := func(addresses ...uint64) (list []byte) {
		for _, addr := range addresses {
			op := cudaabi.StreamBatchMemOpParams(make([]byte, cudaabi.StreamBatchMemOpParamsSize))
			op.SetWaitValueAddress(addr)
			list = append(list, op...)
		}
		return list
	}
	for _, test := range []struct {
		n    gpubackend.Node
		want bool
	}{
		{gpubackend.Node{Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{Dst: device, Src: device}}, false},
		{gpubackend.Node{Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{Dst: device, Src: host + 8}}, true},
		{gpubackend.Node{Type: gpubackend.NodeMemcpy,
			Copy: gpubackend.Box{Dst: host + 4095, Src: device}}, true},
		{gpubackend.Node{Type: gpubackend.NodeMemset,
			Fill: gpubackend.Fill{Dst: host + 4096}}, false},
		{gpubackend.Node{Type: gpubackend.NodeMemset, Fill: gpubackend.Fill{Dst: host}}, true},
		{gpubackend.Node{Type: gpubackend.NodeMemOps, Ops: ops(device, device)}, false},
		{gpubackend.Node{Type: gpubackend.NodeMemOps, Ops: ops(device, host)}, true},
		{gpubackend.Node{Type: gpubackend.NodeKernel}, false},
	} {
		if got := x.OnHost(&test.n); got != test.want {
			t.Errorf("%+v: %t", test.n, got)
		}
	}
}
