// SPDX-License-Identifier: Apache-2.0

package soft

import (
	"os"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/graphs"
)

// fuzzer calls a device as a hostile guest might: any call with handles and addresses that are
// sometimes right.
type fuzzer struct {
	t    testing.TB
	d    *Device
	data []byte
	open []func() // host functions that wait

	streams    []uint64
	events     []uint64
	modules    []uint64
	functions  []uint64
	memory     []uint64
	graphs     []uint64
	conditions []uint64
	nodes      []uint64
	execs      []uint64
	arrays     []uint64
	objects    []uint64
	references []uint64
}

func (f *fuzzer) byte() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

// pick returns one of the values, something near it, or rubbish.
func (f *fuzzer) pick(values []uint64) uint64 {
	b := f.byte()
	if len(values) == 0 || b >= 0xf8 {
		return uint64(b&3) << (8 * (b & 7))
	}
	return values[int(b)%len(values)] + uint64(b>>6)*uint64(b&1)
}

func (f *fuzzer) stream() gpubackend.Stream { return gpubackend.Stream(f.pick(f.streams)) }
func (f *fuzzer) event() gpubackend.Event   { return gpubackend.Event(f.pick(f.events)) }

// size is small, or a power of two.
func (f *fuzzer) size() uint64 {
	if b := f.byte(); b < 0xe0 {
		return uint64(b) * 16
	}
	return 1 << (f.byte() & 63)
}

func keep[H ~uint64](values *[]uint64, h H, result gpubackend.Result) {
	if result == gpubackend.Success {
		*values = append(*values, uint64(h))
	}
}

func (f *fuzzer) step() {
	d := f.d
	switch f.byte() % 24 {
	case 0:
		s, r := d.StreamCreateWithPriority(uint64(f.byte()%3), 0)
		keep(&f.streams, s, r)
	case 1:
		d.StreamDestroy(f.stream())
	case 2:
		e, r := d.EventCreate(uint64(f.byte() % 9))
		keep(&f.events, e, r)
	case 3:
		d.EventDestroy(f.event())
	case 4:
		d.EventRecordWithFlags(f.event(), f.stream(), uint64(f.byte()%3))
	case 5:
		d.StreamWaitEvent(f.stream(), f.event(), uint64(f.byte()%3))
	case 6:
		d.EventElapsed(f.event(), f.event())
	case 7:
		a, r := d.MemAlloc(f.size())
		keep(&f.memory, a, r)
	case 8:
		d.MemFree(f.pick(f.memory))
	case 9:
		d.Copy(f.pick(f.memory), f.pick(f.memory), f.size(), f.stream())
	case 10:
		d.CopyIn(f.pick(f.memory), make([]byte, f.size()%10000), f.stream())
	case 11:
		d.CopyOut(make([]byte, f.size()%10000), f.pick(f.memory))
	case 12:
		d.MemsetD2D32Async(f.pick(f.memory), f.size(), 1, f.size(), f.size(), f.stream())
	case 13:
		d.CopyBox(&gpubackend.Box{
			Dst: f.pick(f.memory), DstPitch: f.size(), DstSlice: f.size(), Src: f.pick(f.memory),
			SrcPitch: f.size(),
			SrcSlice: f.size(), Width: f.size(), Height: f.size(), Depth: f.size(),
		}, f.stream())
	default:
		f.moreSteps()
	}
}

func (f *fuzzer) moreSteps() {
	d := f.d
	switch f.byte() % 18 {
	case 0:
		m, _, _, r := d.ModuleLoadData(smallPTX(f.t), nil, nil, nil)
		keep(&f.modules, m, r)
	case 1:
		d.ModuleUnload(gpubackend.Module(f.pick(f.modules)))
	case 2, 3:
		names := []string{"increment", "scale", "addTotal", "shared", "store", "allocate",
			"bounded", "missing"}
		h, r := d.ModuleGetFunction(gpubackend.Module(f.pick(f.modules)), names[f.byte()%8])
		keep(&f.functions, h, r)
	case 4, 5:
		l := &gpubackend.Launch{Function: gpubackend.Function(f.pick(f.functions)),
			Stream: f.stream()}
		l.Shared = uint32(f.size())
		l.Grid = [3]uint32{uint32(f.byte() % 8), 1 + uint32(f.byte()&1), 1}
		l.Block = [3]uint32{uint32(f.size()), 1, 1}
		l.Parameters = append(params(f.pick(f.memory)), make([]byte, f.byte()%3)...)
		d.Launch(l)
	case 6:
		release, r := d.HostFunc(f.stream(), 1, func(uint64) {})
		if r == gpubackend.Success {
			f.open = append(f.open, release)
		}
	case 7:
		if len(f.open) > 0 {
			f.open[0]()
			f.open = f.open[1:]
		}
	case 8:
		d.DevicePrimaryCtxReset(0)
	case 9:
		f.textureStep()
	case 10, 11, 12, 13, 14, 15:
		f.graphStep()
	default:
		d.StreamQuery(f.stream())
		d.EventQuery(f.event())
		d.ModuleGetGlobal(gpubackend.Module(f.pick(f.modules)), "total")
		d.FuncDescribe(gpubackend.Function(f.pick(f.functions)), make([]byte, f.byte()))
	}
}

func smallPTX(t testing.TB) []byte {
	t.Helper()
	image, err := os.ReadFile("testdata/small.ptx")
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// finish lets all work end and checks that nothing is left.
func (f *fuzzer) finish() {
	f.t.Helper()
	for _, release := range f.open {
		release()
	}
	ok(f.t, f.d.DevicePrimaryCtxReset(0))
	for _, e := range f.execs {
		f.d.GraphExecDestroy(gpubackend.GraphExec(e))
	}
	for _, g := range f.graphs {
		f.d.GraphDestroy(gpubackend.Graph(g))
	}
	held := f.d.Graphs.Held()
	if held != (graphs.Held{}) || f.d.Captures() != 0 {
		f.t.Fatalf("%d bytes of graphs, %d captures, %d segments of memory are left",
			held.Bytes, f.d.Captures(), held.Allocations)
	}
	if n := f.d.Graphs.Held().Conditions; n != 0 {
		f.t.Fatalf("%d conditions are left", n)
	}
	if n := f.d.Textures.Count(); n != 0 {
		f.t.Fatalf("%d textures and surfaces are left", n)
	}
	ok(f.t, f.d.ContextQuery())
	if free, total, result := f.d.MemGetInfo(); free != total || result != gpubackend.Success {
		f.t.Fatalf("%d of %d bytes free, result %d", free, total, result)
	}
	if f.d.handles.Len() != 1 || f.d.scheduler.Pending() != 0 {
		f.t.Fatalf("%d handles and %d tasks are left", f.d.handles.Len(), f.d.scheduler.Pending())
	}
}

func FuzzDevice(f *testing.F) {
	f.Add([]byte{0, 0, 2, 0, 7, 100, 14, 0, 14, 2, 0, 0, 14, 4, 0, 0, 0, 1, 0, 1, 0, 0})
	f.Add([]byte{7, 100, 0, 0, 15, 10, 0, 15, 10, 8, 0, 1, 0, 0, 2, 15, 10, 3, 0, 0, 15, 10, 12, 0,
		0, 15, 10, 5, 0, 0})
	f.Add([]byte{7, 100, 7, 50, 14, 6, 255, 9, 0, 1, 20, 255, 8, 0, 7, 250, 27, 14, 7, 14, 8})
	f.Add([]byte{7, 100, 14, 9, 8, 14, 9, 11, 0, 0, 100, 14, 4, 0, 0, 0, 1, 0, 1, 0, 0, 14, 9, 0, 4,
		0, 4, 0, 0, 0, 1, 1, 14, 9, 9, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		z := &fuzzer{t: t, d: newDevice(t, Options{Memory: 64 << 20}), data: data}
		for range 200 {
			if len(z.data) == 0 {
				break
			}
			z.step()
		}
		z.finish()
		z.d.Close()
	})
}
