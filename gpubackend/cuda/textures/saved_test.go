// SPDX-License-Identifier: Apache-2.0

package textures

import (
	"bytes"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// TestArraysMadeAgain: an array, and one with levels, have their content in another process, in
// whatever order they are made.
func TestArraysMadeAgain(t *testing.T) {
	first, _, f := newTextures(nil, nil)
	small := make(cudaabi.ArrayDescriptor, cudaabi.ArrayDescriptorSize)
	small.SetWidth(5)
	small.SetFormat(cudaabi.ArrayFormatUnsignedInt8)
	small.SetNumChannels(1)
	a, r := first.ArrayCreate(small)
	m, also := first.MipmappedArrayCreate(description(4, 2, 3, 1), 3)
	if r != gpubackend.Success || also != gpubackend.Success {
		t.Fatal(r, also)
	}
	// A row of four has 16 bytes, then 8 and 4; of two rows and three planes one is left.
	want := []string{"small", strings.Repeat("0", 96), strings.Repeat("1", 8), "2222"}
	f.content[uint64(a)] = want[0]
	for n := range uint64(3) {
		f.content[uint64(m)<<8+n] = want[1+n]
	}
	places := first.ArrayPlaces()
	if len(places) != 2 || places[0].Array != a || places[1].Mipmapped != m {
		t.Fatalf("%v", places)
	}
	if why := first.Unsavable(); why != "" {
		t.Error(why)
	}
	var saved bytes.Buffer
	if err := first.SaveArrays(&saved); err != nil {
		t.Fatal(err)
	}
	text := bytes.Clone(saved.Bytes())

	x, _, g := newTextures(nil, nil)
	if err := x.RestoreArrays(&saved); err != nil || saved.Len() > 0 {
		t.Fatalf("%v, %d bytes are left", err, saved.Len())
	}
	x.PlaceArray(places[1].Address)
	m, _ = x.MipmappedArrayCreate(description(4, 2, 3, 1), 3)
	x.PlaceArray(places[0].Address)
	a, _ = x.ArrayCreate(small)
	if err := x.ArraysRestored(); err != nil {
		t.Fatal(err)
	}
	has := []string{g.content[uint64(a)]}
	for n := range uint64(3) {
		has = append(has, g.content[uint64(m)<<8+n])
	}
	if strings.Join(has, " ") != strings.Join(want, " ") {
		t.Errorf("%q, want %q", has, want)
	}

	for n := range len(text) {
		if other, _, _ := newTextures(nil, nil); other.RestoreArrays(bytes.NewReader(text[:n])) ==
			nil {
			t.Fatalf("%d bytes of %d are enough", n, len(text))
		}
	}
	for name, make := range map[string]func(x *Textures){
		"none":           func(*Textures) {},
		"without place":  func(x *Textures) { x.ArrayCreate(small) },
		"another place":  func(x *Textures) { x.PlaceArray(3); x.ArrayCreate(small) },
		"of other size":  func(x *Textures) { x.PlaceArray(2); x.ArrayCreate(small) },
		"one is missing": func(x *Textures) { x.PlaceArray(1); x.ArrayCreate(small) },
	} {
		other, _, _ := newTextures(nil, nil)
		if err := other.RestoreArrays(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		if make(other); other.ArraysRestored() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestUnsavableArrays: what can't be copied here keeps a program where it is.
func TestUnsavableArrays(t *testing.T) {
	x, _, _ := newTextures(nil, nil)
	for name, change := range map[string]func(d cudaabi.Array3DDescriptor){
		"unusual": func(d cudaabi.Array3DDescriptor) { d.SetFormat(0x91) },
		"kind":    func(d cudaabi.Array3DDescriptor) { d.SetFlags(cudaabi.Array3DSparse) },
	} {
		d := cudaabi.Array3DDescriptor(description(8, 8, 0, 1))
		change(d)
		a, r := x.Array3DCreate(d)
		if why := x.Unsavable(); r != gpubackend.Success || !strings.Contains(why, name) {
			t.Errorf("%s: %d, %q", name, r, why)
		}
		if x.ArrayDestroy(a); x.Unsavable() != "" {
			t.Errorf("%s: it is gone", name)
		}
	}
	resource := make(cudaabi.ResourceDesc, cudaabi.ResourceDescSize)
	resource.SetResType(cudaabi.ResourceLinear)
	for addr, want := range map[uint64]bool{1 << 40: true, 1 << 41: false} {
		resource.SetLinearDevPtr(addr)
		h, _ := x.TexObjectCreate(resource, nil, nil)
		if why := x.Unsavable(); (why == "") != want {
			t.Errorf("a texture at %#x: %q", addr, why)
		}
		x.TexObjectDestroy(h)
	}
}

// TestNumbersOfTextures: a texture gets its number if it is free, and what was made to get there is
// gone in the end.
func TestNumbersOfTextures(t *testing.T) {
	x, _, f := newTextures(nil, nil)
	if x.NextTexture(0) == nil {
		t.Error("there is a texture 0")
	}
	for _, step := range []struct{ wanted, got uint64 }{{5, 5}, {6, 6}, {6, 7}, {9, 9}} {
		if err := x.NextTexture(step.wanted); err != nil {
			t.Fatal(err)
		}
		if h, r := x.TexObjectCreate(nil, nil, nil); r != gpubackend.Success || h != step.got {
			t.Errorf("%d was wanted: %d, %d", step.wanted, h, r)
		}
	}
	if len(x.fillers) != 5 || x.Objects() != 4 {
		t.Errorf("%d fillers, %d objects", len(x.fillers), x.Objects())
	}
	if err := x.ArraysRestored(); err != nil || len(x.fillers) != 0 {
		t.Errorf("%v, %d fillers", err, len(x.fillers))
	}
	f.free = []uint64{3}
	if h, _ := x.TexObjectCreate(nil, nil, nil); h != 3 {
		t.Errorf("any would do, it is %d", h)
	}
}
