// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"fmt"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/cmem"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cuda/copyable"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// fake notes what the driver is given.
type fake struct {
	log     []string
	noBatch bool
	into    gpubackend.Stream // of the last CopyFrom
}

func (f *fake) call(format string, args ...any) gpubackend.Result {
	f.log = append(f.log, fmt.Sprintf(format, args...))
	return gpubackend.Success
}

func (f *fake) take() []string {
	log := f.log
	f.log = nil
	return log
}

func (f *fake) MemcpyAsync(_, _, n uint64, s gpubackend.Stream) gpubackend.Result {
	return f.call("copy %d in %d", n, s)
}
func (f *fake) MemcpyHtoDAsync(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("in %d", n)
}
func (f *fake) MemcpyDtoHAsync(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("out %d", n)
}
func (f *fake) MemcpyDtoDAsync(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("within %d", n)
}
func (f *fake) CopyFrom(_ uint64, src []byte, s gpubackend.Stream) gpubackend.Result {
	f.into = s
	return f.call("slice in %d", len(src))
}
func (f *fake) CopyTo(dst []byte, _ uint64, s gpubackend.Stream) gpubackend.Result {
	return f.call("slice out %d in %d", len(dst), s)
}
func (f *fake) MemcpyPeerAsync(
	_ uint64, to gpubackend.Context, _ uint64, from gpubackend.Context, n uint64,
	_ gpubackend.Stream,
) gpubackend.Result {
	return f.call("%d to %d from %d", n, to, from)
}
func (f *fake) Memcpy3DPeerAsync(m cmem.Memory, _ gpubackend.Stream) gpubackend.Result {
	p := cudaabi.Memcpy3DPeer(m.Bytes())
	return f.call("3D of %d planes to %d from %d", p.Depth(), p.DstContext(), p.SrcContext())
}
func (f *fake) Memcpy2DAsync(cmem.Memory, gpubackend.Stream) gpubackend.Result {
	return f.call("2D")
}
func (f *fake) Memcpy3DAsync(cmem.Memory, gpubackend.Stream) gpubackend.Result {
	return f.call("3D")
}
func (f *fake) MemcpyBatchAsync(
	_, _, _ uint64, n int, _, _ uint64, _ gpubackend.Stream,
) gpubackend.Result {
	if f.noBatch {
		return gpubackend.NotSupported
	}
	return f.call("batch of %d", n)
}
func (f *fake) StreamCreateWithPriority(_, _ uint64) (gpubackend.Stream, gpubackend.Result) {
	return 7, f.call("stream")
}
func (f *fake) MemsetD8Async(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", n)
}
func (f *fake) MemsetD16Async(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", 2*n)
}
func (f *fake) MemsetD32Async(_, _, n uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", 4*n)
}
func (f *fake) MemsetD2D8Async(_, _, _, w, h uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", w*h)
}
func (f *fake) MemsetD2D16Async(_, _, _, w, h uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", 2*w*h)
}
func (f *fake) MemsetD2D32Async(_, _, _, w, h uint64, _ gpubackend.Stream) gpubackend.Result {
	return f.call("fill %d", 4*w*h)
}

func (f *fake) PointerAttribute(uint64, uint64) (uint64, gpubackend.Result) {
	return 0, gpubackend.InvalidValue
}

const (
	device  = 1 << 40
	host    = 0x10000
	ofGraph = 0x80000
)

func newCopies() (*Copies, *fake) {
	f := &fake{}
	x, _ := contextstest.New(nil)
	ranges := copyable.New(f, x)
	ranges.SetWindow(device, 1<<20, 2)
	ranges.Host.Put(copyable.Span{Base: host, Bytes: 4096, Writable: true})
	ranges.OfGPUs.Put(copyable.Span{Base: ofGraph, Bytes: 4096, Writable: true})
	return New(f, x, ranges, f), f
}

// TestCopy: of memory that the driver may not know yet it is told what both sides are, and of what
// isn't the guest's nothing.
func TestCopy(t *testing.T) {
	x, f := newCopies()
	for _, test := range []struct {
		name        string
		dst, src, n uint64
		want        gpubackend.Result
		what, dtod  []string
	}{
		{"in", device, host, 64, 0, []string{"copy 64 in 3"}, []string{"within 64"}},
		{"to a graph's memory", ofGraph, host, 64, 0, []string{"in 64"}, []string{"within 64"}},
		{"from a graph's memory", host, ofGraph, 64, 0, []string{"out 64"}, []string{"within 64"}},
		{"from a graph's to a device's", device, ofGraph, 64, 0, []string{"within 64"},
			[]string{"within 64"}},
		{"too much", device, host, 4097, gpubackend.InvalidValue, nil, nil},
		{"nobody's", device, 8, 64, gpubackend.InvalidValue, nil, nil},
		{"to nobody's", 8, device, 64, gpubackend.InvalidValue, nil, nil},
		{"nothing", 8, 8, 0, 0, nil, []string{"within 0"}},
	} {
		if r := x.Copy(test.dst, test.src, test.n, 3); r != test.want ||
			!slices.Equal(f.take(), test.what) {
			t.Errorf("%s: result %d", test.name, r)
		}
		if r := x.MemcpyDtoDAsync(test.dst, test.src, test.n, 3); r != test.want ||
			!slices.Equal(f.take(), test.dtod) {
			t.Errorf("%s, by MemcpyDtoDAsync: result %d", test.name, r)
		}
	}
}

// TestCopyBox: the driver counts a slice in rows, so other planes are copied one by one.
func TestCopyBox(t *testing.T) {
	x, f := newCopies()
	for _, test := range []struct {
		name string
		box  gpubackend.Box
		want gpubackend.Result
		log  []string
	}{
		{"rows", gpubackend.Box{Width: 8, Height: 4, Depth: 1, DstPitch: 64, SrcPitch: 8}, 0,
			[]string{"2D"}},
		{"planes", gpubackend.Box{Width: 8, Height: 4, Depth: 3, DstPitch: 64, SrcPitch: 8,
			DstSlice: 256, SrcSlice: 32}, 0, []string{"3D"}},
		{"slices of half a row",
			gpubackend.Box{Width: 8, Height: 4, Depth: 3, DstPitch: 64, SrcPitch: 8, DstSlice: 260,
				SrcSlice: 32}, 0, []string{"2D", "2D", "2D"}},
		{"slices that overlap",
			gpubackend.Box{Width: 8, Height: 4, Depth: 2, DstPitch: 64, SrcPitch: 8, DstSlice: 64,
				SrcSlice: 32}, 0, []string{"2D", "2D"}},
		{"rows that overlap",
			gpubackend.Box{Width: 8, Height: 4, Depth: 1, DstPitch: 4, SrcPitch: 8},
			gpubackend.InvalidValue, nil},
		{"one row without a pitch", gpubackend.Box{Width: 8, Height: 1, Depth: 1}, 0,
			[]string{"2D"}},
		{"nothing", gpubackend.Box{Width: 8, Height: 0, Depth: 1}, 0, nil},
		{"beyond the end",
			gpubackend.Box{Width: 8, Height: 65, Depth: 1, DstPitch: 64, SrcPitch: 64},
			gpubackend.InvalidValue, nil},
	} {
		test.box.Dst, test.box.Src = device, host
		if r := x.CopyBox(&test.box, 3); r != test.want || !slices.Equal(f.take(), test.log) {
			t.Errorf("%s: result %d", test.name, r)
		}
	}
}

// TestBatch: a driver that knows no batches gets one copy after the other.
func TestBatch(t *testing.T) {
	x, f := newCopies()
	b := NewBatch(3)
	defer b.Close()
	add := func(srcs ...uint64) {
		for _, src := range srcs {
			b.Add(device, src, 16)
		}
	}
	for _, test := range []struct {
		name    string
		srcs    []uint64
		noBatch bool
		want    gpubackend.Result
		log     []string
	}{
		{"none", nil, false, 0, nil},
		{"one", []uint64{host}, false, 0, []string{"copy 16 in 3"}},
		{"three", []uint64{host, host, host}, false, 0, []string{"batch of 3"}},
		{"one is nobody's", []uint64{host, 8, host}, false, gpubackend.InvalidValue, nil},
		{"no batches", []uint64{host, host}, true, 0, []string{"copy 16 in 3", "copy 16 in 3"}},
		{"nobody's without batches", []uint64{host, 8}, true, gpubackend.InvalidValue,
			[]string{"copy 16 in 3"}},
	} {
		f.noBatch = test.noBatch
		add(test.srcs...)
		if r := x.CopyBatch(b, 3); r != test.want || !slices.Equal(f.take(), test.log) || b.Full() {
			t.Errorf("%s: result %d", test.name, r)
		}
	}
}

// TestCopyOut has a stream of its own in each context.
func TestCopyOut(t *testing.T) {
	x, f := newCopies()
	out := func() gpubackend.Result { return x.CopyOut(make([]byte, 8), device) }
	for range 2 {
		out()
	}
	if got := f.take(); !slices.Equal(got,
		[]string{"stream", "slice out 8 in 7", "slice out 8 in 7"}) {
		t.Errorf("%q", got)
	}
	x.Ended(x.contexts.Current())
	if out(); f.take()[0] != "stream" {
		t.Error("the stream of a context that has ended is used")
	}
	if r := x.CopyOut(make([]byte, 8), 8); r != gpubackend.InvalidValue ||
		x.CopyIn(8, make([]byte, 8), 0) != r || len(f.take()) != 0 {
		t.Errorf("nobody's: %d", r)
	}
	x.contexts.SetCurrent(0)
	if r := out(); r != gpubackend.InvalidContext {
		t.Errorf("without a context: %d", r)
	}
}

// TestFills: as much as is filled must be the guest's.
func TestFills(t *testing.T) {
	x, f := newCopies()
	for name, fill := range map[string]func(n uint64) gpubackend.Result{
		"bytes": func(n uint64) gpubackend.Result { return x.MemsetD8Async(host, 0, n, 0) },
		"halves": func(n uint64) gpubackend.Result {
			return x.MemsetD16Async(host, 0, n/2, 0)
		},
		"words": func(n uint64) gpubackend.Result {
			return x.MemsetD32Async(host, 0, n/4, 0)
		},
		"rows of bytes": func(n uint64) gpubackend.Result {
			return x.MemsetD2D8Async(host, n/4, 0, n/4, 4, 0)
		},
		"rows of halves": func(n uint64) gpubackend.Result {
			return x.MemsetD2D16Async(host, n/4, 0, n/8, 4, 0)
		},
		"rows of words": func(n uint64) gpubackend.Result {
			return x.MemsetD2D32Async(host, n/4, 0, n/16, 4, 0)
		},
	} {
		if r := fill(4096); r != gpubackend.Success ||
			!slices.Equal(f.take(), []string{"fill 4096"}) {
			t.Errorf("%s: %d", name, r)
		}
		if r := fill(4096 + 16); r != gpubackend.InvalidValue || len(f.take()) != 0 {
			t.Errorf("%s, too many: %d", name, r)
		}
	}
}
