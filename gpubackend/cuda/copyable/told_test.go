// SPDX-License-Identifier: Apache-2.0

package copyable

import (
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
)

const toldBase, toldBytes = 2 << 40, 64 << 10

// newTold has two aliases, of 100 and 16 bytes, side by side.
func newTold(t *testing.T) (g *Ranges, first, second uint64) {
	t.Helper()
	g = newRanges()
	g.Told.SetRange(toldBase, toldBytes)
	first, ok := g.Told.Add(0x9000, 100)
	second, also := g.Told.Add(0x8000, 16)
	if !ok || !also || first != toldBase || second != toldBase+AliasAlign {
		t.Fatalf("%#x, %#x", first, second)
	}
	return g, first, second
}

func TestToldIsFound(t *testing.T) {
	g, first, second := newTold(t)
	for _, test := range []struct {
		name        string
		addr, bytes uint64
		real        uint64 // 0: refused
	}{
		{"all", first, 100, 0x9000}, {"a part", first + 40, 60, 0x9000 + 40},
		{"no bytes", first + 1, 0, 0x9001}, {"beyond its end", first + 40, 61, 0},
		{"its end", first + 100, 1, 0}, {"between", first + 128, 1, 0},
		{"the other", second, 16, 0x8000}, {"into the other", first, 300, 0},
		{"unused", second + 16, 1, 0}, {"the last address", toldBase + toldBytes - 1, 1, 0},
		{"out of the range", toldBase + toldBytes - 1, 2, 0},
		{"all addresses", first, ^uint64(0) - first, 0}, {"behind it", toldBase + toldBytes, 1, 0},
	} {
		at, r := g.At(test.addr, test.bytes, true)
		ok := test.real != 0 && r == gpubackend.Success && at == (Place{test.real, Device})
		if !ok && (test.real != 0 || r != gpubackend.InvalidValue) {
			t.Errorf("%s: %+v, %d", test.name, at, r)
		}
	}
	if g.Told.Back(0x9063) != first+99 || g.Told.Back(0x9064) != 0x9064 {
		t.Error("an address of the driver's is told wrongly")
	}
}

// TestToldInEachKind of copy and fill: the driver gets its own address.
func TestToldInEachKind(t *testing.T) {
	g, first, second := newTold(t)
	to, from, r := g.Copy(first+4, second, 16)
	if r != gpubackend.Success || to != (Place{0x9004, Device}) || from != (Place{0x8000, Device}) {
		t.Errorf("a copy: %+v, %+v, %d", to, from, r)
	}
	b := gpubackend.Box{Dst: first, DstPitch: 20, Src: window, SrcPitch: 64, Width: 10, Height: 5,
		Depth: 1}
	if _, _, r = g.Box(&b); r != gpubackend.Success || b.Dst != 0x9000 || b.Src != window {
		t.Errorf("rows: %+v, %d", b, r)
	}
	b = gpubackend.Box{Dst: first, DstPitch: 20, Src: window, SrcPitch: 64, Width: 21, Height: 5,
		Depth: 1}
	if _, _, r = g.Box(&b); r != gpubackend.InvalidValue {
		t.Errorf("rows beyond the end: %d", r)
	}
	if at, r := g.Fill(second+8, 0, 4, 2, 1); r != gpubackend.Success || at != 0x8008 {
		t.Errorf("a fill: %#x, %d", at, r)
	}
	if _, r := g.Fill(second+8, 0, 4, 3, 1); r != gpubackend.InvalidValue {
		t.Errorf("a fill beyond the end: %d", r)
	}
}

func TestToldEnds(t *testing.T) {
	g, first, second := newTold(t)
	if at, ok := g.Told.Of(0x9000, 100); !ok || at != first {
		t.Errorf("%#x, %t", at, ok)
	}
	if _, ok := g.Told.Of(0x9000, 99); ok {
		t.Error("it has another size")
	}
	g.Told.Remove(first + 1) // none begins there
	g.Told.Remove(first)
	if _, r := g.At(first, 1, false); r != gpubackend.InvalidValue {
		t.Errorf("removed: %d", r)
	}
	if _, ok := g.Told.Of(0x9000, 100); ok {
		t.Error("it is still known")
	}
	if at, ok := g.Told.Add(0xa000, AliasAlign); !ok || at != first {
		t.Errorf("another: %#x, %t", at, ok)
	}
	for name, a := range map[string]Alias{
		"nothing":          {At: toldBase + 4096, Real: 0xb000},
		"known":            {At: toldBase + 4096, Real: 0x8000, Bytes: 4},
		"taken":            {At: second - 4, Real: 0xb000, Bytes: 8},
		"in another":       {At: second + 4, Real: 0xb000, Bytes: 8},
		"around another":   {At: second - 4, Real: 0xb000, Bytes: 80},
		"before the range": {At: toldBase - 4, Real: 0xb000, Bytes: 4},
		"beyond its end":   {At: toldBase + toldBytes - 4, Real: 0xb000, Bytes: 5},
		"all addresses":    {At: toldBase + 4096, Real: 0xb000, Bytes: ^uint64(0)},
	} {
		if g.Told.Put(a) {
			t.Errorf("%s: taken", name)
		}
	}
	if !g.Told.Put(Alias{At: toldBase + toldBytes - 4, Real: 0xb000, Bytes: 4}) {
		t.Error("the last address isn't given")
	}
	if _, ok := g.Told.Add(0xc000, toldBytes-2*AliasAlign); ok {
		t.Error("there was no room")
	}
	if at, ok := g.Told.Add(0xc000, 4096); !ok || at != toldBase+2*AliasAlign {
		t.Errorf("between: %#x, %t", at, ok)
	}
}

// TestNothingTold: without a range no address is such a one.
func TestNothingTold(t *testing.T) {
	g := newRanges()
	if _, ok := g.Told.Add(0x9000, 4); ok {
		t.Error("an address was given")
	}
	for _, addr := range []uint64{0, toldBase, ^uint64(0)} {
		if g.Told.has(addr) {
			t.Errorf("%#x", addr)
		}
	}
}
