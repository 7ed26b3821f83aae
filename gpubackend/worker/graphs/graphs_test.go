// SPDX-License-Identifier: Apache-2.0

package graphs

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/arena"
	"github.com/paracuda/paracuda/gpubackend/command"
	"github.com/paracuda/paracuda/gpubackend/object"
	"github.com/paracuda/paracuda/gpubackend/wire"
	"github.com/paracuda/paracuda/gpubackend/worker/call"
)

// fakeDriver captures to one graph.
type fakeDriver struct {
	gpubackend.Unsaved
	capturing gpubackend.Graph
}

func (d *fakeDriver) StreamCaptureInfo(gpubackend.Stream, []byte) (
	uint64, uint64, gpubackend.Graph, []gpubackend.GraphNode, gpubackend.Result,
) {
	return 1, 1, d.capturing, nil, gpubackend.Success
}

// fakeStreams takes handles for streams, and fakeKernels for functions.
type (
	fakeStreams struct{}
	fakeKernels struct{}
)

func (fakeStreams) Find(_ *call.Call, handle uint64) (gpubackend.Stream, gpubackend.Result) {
	return gpubackend.Stream(handle), gpubackend.Success
}
func (fakeKernels) Find(_ *call.Call, handle uint64) (gpubackend.Function, gpubackend.Result) {
	if handle < 100 {
		return 0, gpubackend.InvalidHandle
	}
	return gpubackend.Function(handle - 100), gpubackend.Success
}
func (fakeKernels) Name(f gpubackend.Function) uint64 { return uint64(f) + 100 }

// rig is Graphs with a fake around them, and a buffer that calls refer to.
type rig struct {
	*Graphs
	driver  fakeDriver
	objects object.Table
	kept    []uint64
	bulk    []byte
	call    call.Call
}

func newRig() *rig {
	r := &rig{}
	r.Graphs = New(Config{
		Driver: &r.driver, Objects: &r.objects, Streams: fakeStreams{}, Kernels: fakeKernels{},
		Keep: func(token uint64) (gpubackend.HostCall, gpubackend.Result) {
			r.kept = append(r.kept, token)
			return func(uint64, func()) {}, gpubackend.Success
		},
	})
	r.call = call.New(&call.Buffers{
		Bulk:   func(_, n uint64) ([]byte, error) { return r.bulk[:n], nil },
		Copied: func(uint64) {},
	})
	return r
}

// given makes a call whose first argument is bytes.
func (r *rig) given(b []byte) *call.Call {
	r.bulk = b
	c := &arena.Command{N: 2}
	c.Words[0], c.Words[1] = wire.BufferBulk<<56, uint64(len(b))
	r.call.Start(c)
	return &r.call
}

// TestNodesComeBackAsTheyWent: what is decoded and encoded again is the same, handles included.
func TestNodesComeBackAsTheyWent(t *testing.T) {
	r := newRig()
	event := r.objects.Add(object.Event, 9, 0)
	child := r.NameGraph(7, 0)
	for name, record := range map[string]interface{ Append([]byte) []byte }{
		"kernel": &command.NodeKernel{
			Function: 105, GridX: 1, GridY: 2, GridZ: 3, BlockX: 4, BlockY: 5, BlockZ: 6, Shared: 7,
			ParameterBytes: 8,
			Parameters:     []byte("12345678"),
		},
		"memcpy": &command.NodeMemcpy{Dst: 1, Src: 2, Width: 3, Height: 1, Depth: 1},
		"memset": &command.NodeMemset{Dst: 1, Value: 2, Element: 4, Width: 3, Height: 1},
		"graph":  &command.NodeGraph{Graph: child},
		"wait":   &command.NodeEventWait{Event: event},
		"record": &command.NodeEventRecord{Event: event},
		"free":   &command.NodeMemFree{Address: 0x1000},
		"host":   &command.NodeHost{Token: 1<<63 | 5},
	} {
		want := record.Append(nil)
		n, result := r.DecodeNode(r.given(want), 0)
		if result != gpubackend.Success {
			t.Errorf("%s: %v", name, result)
			continue
		}
		got := make([]byte, len(want)+16)
		if size := r.EncodeNode(got, n, 0); size != uint64(len(want)) ||
			!bytes.Equal(got[:size], want) {
			t.Errorf("%s: %d bytes, %x, want %x", name, size, got, want)
		}
	}
	if len(r.kept) != 1 || r.kept[0] != 1<<63|5 {
		t.Errorf("kept %x", r.kept)
	}
}

func TestHostileRecords(t *testing.T) {
	r := newRig()
	event := r.objects.Add(object.Event, 9, 0)
	for name, tt := range map[string]struct {
		b    []byte
		want gpubackend.Result
	}{
		"empty":        {nil, gpubackend.InvalidValue},
		"unknown type": {binary.LittleEndian.AppendUint64(nil, 99), gpubackend.NotSupported},
		"short":        {(&command.NodeMemcpy{}).Append(nil)[:40], gpubackend.InvalidValue},
		"forged function": {(&command.NodeKernel{Function: 5, BlockX: 1}).Append(nil),
			gpubackend.InvalidHandle},
		"event as a graph": {(&command.NodeGraph{Graph: event}).Append(nil),
			gpubackend.InvalidValue},
		"forged event": {(&command.NodeEventWait{Event: 77}).Append(nil),
			gpubackend.InvalidHandle},
		"a queued function": {(&command.NodeHost{Token: 5}).Append(nil), gpubackend.InvalidValue},
	} {
		if _, result := r.DecodeNode(r.given(tt.b), 0); result != tt.want {
			t.Errorf("%s: %v, want %v", name, result, tt.want)
		}
	}
}

// TestNamesGoWithTheirGraph: the driver may give its own handles to other graphs then.
func TestNamesGoWithTheirGraph(t *testing.T) {
	r := newRig()
	g := r.NameGraph(7, 0)
	n := r.NameGraphNode(8, g)
	if r.NameGraph(7, 0) != g || r.NameGraphNode(8, g) != n || r.NameGraph(0, 0) != 0 ||
		r.NameGraphNode(0, g) != 0 {
		t.Error("what has a name got another")
	}
	found, result := r.FindGraphNodes(r.given(binary.LittleEndian.AppendUint64(nil, n)), 0)
	if result != gpubackend.Success || len(found) != 1 || found[0] != 8 {
		t.Errorf("%v, %v", found, result)
	}
	if r.ForgetGraph(g); r.Names() != 0 || r.objects.Len() != 0 {
		t.Errorf("%d names and %d objects are left", r.Names(), r.objects.Len())
	}
	if r.NameGraph(7, 0) == g {
		t.Error("another graph has the name of one that is gone")
	}
}

// TestCapturesThatFailTakeTheirGraph, and those that succeed don't.
func TestCapturesThatFailTakeTheirGraph(t *testing.T) {
	for result, lost := range map[gpubackend.Result]bool{
		gpubackend.Success: false, gpubackend.StreamCaptureInvalidated: true,
		gpubackend.StreamCaptureUnmatched: false,
	} {
		r := newRig()
		r.driver.capturing = 7
		g := r.NameGraph(7, 0)
		steps := r.Steps()
		c := r.given(nil)
		steps[gpubackend.OpStreamBeginCapture](c,
			func(*call.Call) gpubackend.Result { return gpubackend.Success })
		if r.Captures() != 1 {
			t.Fatalf("%d captures", r.Captures())
		}
		steps[gpubackend.OpStreamEndCapture](c,
			func(*call.Call) gpubackend.Result { return result })
		if _, there := r.objects.Lookup(object.Graph, g); there == lost {
			t.Errorf("%v: the handle is there: %v", result, there)
		}
	}
}

// TestRoomForNames: a call that needs more handles than there is room for fails, though the driver
// has executed it. Without any room the driver isn't asked.
func TestRoomForNames(t *testing.T) {
	r := newRig()
	for range MaxObjects - 3 {
		r.objects.Add(object.GraphNode, 1, 0)
	}
	step := r.Steps()[gpubackend.OpGraphGetNodes]
	for _, x := range []struct {
		what        string
		first, n    int // the nodes that the driver returns
		want        gpubackend.Result
		asked       bool
		named, room int // afterwards
	}{
		{"two names with room for three", 100, 2, gpubackend.Success, true, 2, 1},
		{"the same again", 100, 2, gpubackend.Success, true, 2, 1},
		{"two names with room for one", 200, 2, gpubackend.OutOfMemory, true, 3, 0},
		{"no room at all", 100, 2, gpubackend.OutOfMemory, false, 3, 0},
	} {
		asked := false
		got := step(nil, func(*call.Call) gpubackend.Result {
			asked = true
			for i := range x.n {
				r.NameGraphNode(gpubackend.GraphNode(x.first+i), 0)
			}
			return gpubackend.Success
		})
		if got != x.want || asked != x.asked {
			t.Errorf("%s: %v, the driver was asked: %t, want %v, %t", x.what, got, asked, x.want,
				x.asked)
		}
		if room := MaxObjects - r.objects.Count(object.GraphNode); r.Names() != x.named ||
			room != x.room {
			t.Errorf("%s: %d names, room for %d, want %d and %d", x.what, r.Names(), room, x.named,
				x.room)
		}
	}
}
