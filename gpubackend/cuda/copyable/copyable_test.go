// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/contexts/contextstest"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// pointers is what a driver says of addresses.
type pointers map[uint64]uint64

func (p pointers) PointerAttribute(_, addr uint64) (uint64, gpubackend.Result) {
	if kind, known := p[addr]; known {
		return kind, gpubackend.Success
	}
	return 0, gpubackend.InvalidValue
}

const (
	window, windowBytes = 1 << 40, 1 << 30
	shown, read, pieces = 0x10000, 0x20000, 0x30000
	ofGraph, variable   = 0x50000, 0x60000
)

func newRanges() *Ranges {
	x, _ := contextstest.New(nil)
	g := New(pointers{variable: cudaabi.MemoryTypeDevice, 0x70000: cudaabi.MemoryTypeHost,
		shown + 4096: cudaabi.MemoryTypeHost}, x)
	g.SetWindow(window, windowBytes/2, 2)
	for _, s := range []Span{{shown, 4096, true}, {read, 4096, false}, {pieces, 2048, true},
		{pieces + 2048, 2048, true}} {
		g.Host.Put(s)
	}
	g.OfGPUs.Put(Span{ofGraph, 4096, true})
	return g
}

func TestAt(t *testing.T) {
	const refused = gpubackend.InvalidValue
	g := newRanges()
	for _, test := range []struct {
		name        string
		addr, bytes uint64
		write       bool
		side        Side
		want        gpubackend.Result
	}{
		{"device memory", window + 5, 100, true, Device, 0},
		{"all of it", window, windowBytes, true, Device, 0},
		{"beyond its end", window + windowBytes - 4, 5, false, 0, refused},
		{"before it", window - 1, 1, false, 0, refused},
		{"shown", shown, 4096, true, Host, 0},
		{"beyond what is shown", shown + 1, 4096, false, 0, refused},
		{"behind what is shown", shown + 4096, 1, false, 0, refused},
		{"to be read", read + 8, 8, false, Host, 0},
		{"to be read alone", read + 8, 8, true, 0, refused},
		{"pieces side by side", pieces + 2000, 100, true, Host, 0},
		{"a variable", variable, 4, true, Device, 0},
		{"memory of a graph", ofGraph + 8, 4, true, Graph, 0},
		{"other host memory", 0x70000, 4, false, 0, refused},
		{"nothing", 8, 4, false, 0, refused},
		{"all addresses", shown, ^uint64(0), false, 0, refused},
		{"no bytes", shown, 0, true, Host, 0},
	} {
		at, r := g.At(test.addr, test.bytes, test.write)
		if at.Side != test.side || r != test.want || r == 0 && at.Address != test.addr {
			t.Errorf("%s: %+v, result %d", test.name, at, r)
		}
	}
}

// TestAtWithoutAContext, or with a dead one: the driver isn't asked.
func TestAtWithoutAContext(t *testing.T) {
	x, _ := contextstest.New(nil)
	g := New(pointers{variable: cudaabi.MemoryTypeDevice}, x)
	x.Failed(gpubackend.IllegalAddress)
	if _, r := g.At(variable, 4, false); r != gpubackend.IllegalAddress {
		t.Errorf("in a dead context: %d", r)
	}
	x.SetCurrent(0)
	if _, r := g.At(variable, 4, false); r != gpubackend.InvalidContext {
		t.Errorf("in none: %d", r)
	}
}

func TestApart(t *testing.T) {
	g := newRanges()
	const second = window + windowBytes/2
	for _, test := range []struct {
		a, b uint64
		of   [2]int
		want bool
	}{
		{window, second - 1, [2]int{}, false}, {window, second, [2]int{0, 1}, true},
		{window + windowBytes - 1, window, [2]int{1, 0}, true}, {second, shown, [2]int{}, false},
		{window - 1, second, [2]int{}, false}, {second, second + 5, [2]int{}, false},
	} {
		if of, apart := g.Apart(test.a, test.b); of != test.of || apart != test.want {
			t.Errorf("%#x and %#x: %v, %v", test.a, test.b, of, apart)
		}
	}
}

func TestBoxAndFill(t *testing.T) {
	g := newRanges()
	box := func(width, height, depth, pitch, slice uint64) gpubackend.Result {
		_, _, r := g.Box(&gpubackend.Box{
			Dst: window, DstPitch: pitch, DstSlice: slice, Src: shown, SrcPitch: pitch,
			SrcSlice: slice,
			Width:    width, Height: height, Depth: depth,
		})
		return r
	}
	fill := func(dst, pitch, element, width, height uint64) gpubackend.Result {
		at, r := g.Fill(dst, pitch, element, width, height)
		if r == gpubackend.Success && at != dst {
			t.Errorf("a fill at %#x is one at %#x", dst, at)
		}
		return r
	}
	for _, test := range []struct {
		name string
		r    gpubackend.Result
		ok   bool
	}{
		{"rows", box(64, 16, 1, 256, 0), true},
		{"rows beyond the end", box(64, 17, 1, 256, 0), false},
		{"planes", box(64, 2, 4, 64, 1024), true},
		{"planes beyond the end", box(64, 2, 5, 64, 1024), false},
		{"rows that wrap", box(64, 1<<40, 1, 1<<24, 0), false},
		{"planes that wrap", box(64, 1, 1<<33, 64, 1<<31), false},
		{"an immense row", box(1<<48, 1, 1, 0, 0), false},
		{"a fill", fill(shown, 256, 4, 16, 16), true},
		{"a fill of nothing", fill(8, 256, 4, 0, 16), true},
		{"a fill at address 0", fill(0, 0, 4, 1024, 1), true},
		{"a fill at address 0 and far beyond", fill(0, 0, 4, 1025, 1), false},
		{"rows at address 0 and far beyond", fill(0, 4096, 4, 1, 2), false},
		{"a fill at another address of nothing", fill(4, 0, 4, 1, 1), false},
		{"a fill beyond the end", fill(shown, 256, 4, 65, 16), false},
		{"a fill of what is to be read", fill(read, 0, 1, 1, 1), false},
		{"elements of 5 bytes", fill(shown, 256, 5, 1, 1), false},
		{"more elements than addresses", fill(shown, 0, 4, 1<<62+1, 1), false},
	} {
		if (test.r == gpubackend.Success) != test.ok ||
			!test.ok && test.r != gpubackend.InvalidValue {
			t.Errorf("%s: %d", test.name, test.r)
		}
	}
}
