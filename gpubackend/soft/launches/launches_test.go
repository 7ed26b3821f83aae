// SPDX-License-Identifier: Apache-2.0

package launches

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/code"
	"github.com/paracuda/paracuda/gpubackend/soft/output"
	"github.com/paracuda/paracuda/gpubackend/soft/resulttest"
	"github.com/paracuda/paracuda/gpubackend/soft/roomtest"
	"github.com/paracuda/paracuda/gpubackend/soft/space"
	"github.com/paracuda/paracuda/gpubackend/soft/streams"
	"github.com/paracuda/paracuda/gpubackend/soft/textures"
)

const text = ".version 7.0\n.target sm_80\n.address_size 64\n" +
	".visible .entry store(.param .u64 p, .param .u32 v) { .reg .b64 a; .reg .b32 b; " +
	"ld.param.u64 a, [p];\n" +
	" ld.param.u32 b, [v]; st.global.u32 [a], b; ret; }\n" +
	".visible .entry small() .maxntid 32, 1, 1 { ret; }\x00"

// rig is the launches of a device.
type rig struct {
	*Launches
	*roomtest.Ground
	code    *code.Code
	streams *streams.Streams
	module  gpubackend.Module
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Ground: roomtest.New(t, 64<<20)}
	r.code = code.New(code.Options{
		Handles: r.Handles, Contexts: r.Contexts, Memory: r.Memory, Unloaded: func(*code.Module) {},
	})
	r.streams = streams.New(streams.Options{Handles: r.Handles, Scheduler: r.Scheduler,
		Contexts: r.Contexts})
	r.Lasts = r.streams.Lasts
	r.Launches = New(Options{
		Scheduler: r.Scheduler, Memory: r.Memory, Code: r.code, Streams: r.streams,
		Output: output.NewBuffer(nil),
		Textures: textures.New(textures.Options{
			Handles: r.Handles, Contexts: r.Contexts, Memory: r.Memory, Code: r.code,
		}),
		SetCondition: func(uint64, uint32) bool { return false }, Multiprocessors: 2,
	})
	var result gpubackend.Result
	r.module, _, _, result = r.code.ModuleLoadData([]byte(text), nil, nil, nil)
	resulttest.OK(t, result)
	return r
}

// launch describes a launch of one thread.
func (r *rig) launch(t *testing.T, name string, parameters ...byte) gpubackend.Launch {
	t.Helper()
	f, result := r.code.ModuleGetFunction(r.module, name)
	resulttest.OK(t, result)
	one := [3]uint32{1, 1, 1}
	return gpubackend.Launch{Function: f, Grid: one, Block: one, Parameters: parameters}
}

// storing is the parameters of store.
func storing(addr uint64, value uint32) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, addr), value)
}

func TestLaunchesRunInOrder(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 4)
	var list []gpubackend.Launch
	for i := range uint32(20) {
		list = append(list, r.launch(t, "store", storing(a, i)...))
	}
	n, result := r.LaunchAll(list)
	resulttest.OK(t, result)
	for _, l := range list {
		clear(l.Parameters) // the caller's again
	}
	resulttest.OK(t, r.Idle(t))
	if got := binary.LittleEndian.Uint32(space.Bytes(a, 4)); n != 20 || got != 19 {
		t.Errorf("%d queued, the last stored %d", n, got)
	}
}

// TestFaultEndsTheContext and what follows in it.
func TestFaultEndsTheContext(t *testing.T) {
	r := newRig(t)
	bad := r.launch(t, "store", storing(4096, 1)...)
	resulttest.OK(t, r.Launch(&bad))
	resulttest.Want(t, r.Idle(t), gpubackend.IllegalAddress)
	resulttest.Want(t, r.Launch(&bad), gpubackend.IllegalAddress)
}

func TestLaunchesThatCantBe(t *testing.T) {
	r := newRig(t)
	a := r.Alloc(t, 4)
	for _, c := range []struct {
		name, kernel string
		change       func(*gpubackend.Launch)
		want         gpubackend.Result
	}{
		{"no function", "store", func(l *gpubackend.Launch) { l.Function = 1 },
			gpubackend.InvalidHandle},
		{"no block", "store", func(l *gpubackend.Launch) { l.Block[1] = 0 },
			gpubackend.InvalidValue},
		{"wide grid", "store", func(l *gpubackend.Launch) { l.Grid[2] = 1 << 16 },
			gpubackend.InvalidValue},
		{"large block", "store", func(l *gpubackend.Launch) { l.Block = [3]uint32{1024, 2, 1} },
			gpubackend.InvalidValue},
		{"more than its bound", "small",
			func(l *gpubackend.Launch) { l.Block[0] = 33; l.Parameters = nil },
			gpubackend.InvalidValue},
		{"no parameters", "store", func(l *gpubackend.Launch) { l.Parameters = nil },
			gpubackend.InvalidValue},
		{"too many", "store", func(l *gpubackend.Launch) { l.Parameters = make([]byte, 13) },
			gpubackend.LaunchOutOfResources},
		{"shared memory", "store", func(l *gpubackend.Launch) { l.Shared = 1 << 20 },
			gpubackend.InvalidValue},
		{"half an attribute", "store",
			func(l *gpubackend.Launch) { l.Attributes = make([]byte, 8) },
			gpubackend.InvalidValue},
	} {
		l := r.launch(t, c.kernel, storing(a, 1)...)
		c.change(&l)
		if result := r.Launch(&l); result != c.want {
			t.Errorf("%s: result %d, want %d", c.name, result, c.want)
		}
		if result := r.Check(&gpubackend.Node{Type: gpubackend.NodeKernel,
			Launch: l}); result != c.want {
			t.Errorf("%s, as a node: result %d, want %d", c.name, result, c.want)
		}
	}
	resulttest.OK(t, r.Idle(t))
}
