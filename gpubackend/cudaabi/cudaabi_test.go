// SPDX-License-Identifier: Apache-2.0

package cudaabi

import (
	"bytes"
	"testing"
)

// TestAccess writes fields of each kind and looks at the bytes. tests/layout compares the places of
// all fields with a header.
func TestAccess(t *testing.T) {
	b := make([]byte, TextureDescSize)
	d := TextureDesc(b)
	d.SetAddressMode(2, AddressModeBorder)
	d.SetMipmapLevelBias(1)
	d.SetBorderColor(3, -2)
	want := make([]byte, TextureDescSize)
	want[8], want[30], want[31], want[55] = 3, 0x80, 0x3f, 0xc0
	if !bytes.Equal(b, want) || d.AddressMode(2) != AddressModeBorder || d.MipmapLevelBias() != 1 ||
		d.BorderColor(3) != -2 {
		t.Errorf("got % x, want % x", b, want)
	}

	p := MemPoolProps(make([]byte, MemPoolPropsSize))
	p.Location().SetID(DeviceInvalid)
	p.SetMaxSize(1 << 40)
	if p.Location().ID() != DeviceInvalid || p.MaxSize() != 1<<40 || p[12] != 0xfe || p[29] != 1 {
		t.Errorf("got % x", []byte(p))
	}
}

// TestSides: the source and the target of a copy have the same fields, each in places of its own.
func TestSides(t *testing.T) {
	m := Memcpy3D(make([]byte, Memcpy3DSize))
	for i, side := range []Memcpy3DSide{m.Src(), m.Dst()} {
		side.SetXInBytes(uint64(10 + i))
		side.SetArray(uint64(20 + i))
		side.SetReserved(uint64(30 + i))
		side.SetHeight(uint64(40 + i))
	}
	got := []uint64{m.SrcXInBytes(), m.SrcArray(), m.SrcHeight(), m.DstXInBytes(), m.DstArray(),
		m.DstReserved(), m.DstHeight()}
	for i, want := range []uint64{10, 20, 40, 11, 21, 31, 41} {
		if got[i] != want {
			t.Errorf("field %d is %d, want %d", i, got[i], want)
		}
	}
}

// TestNoAllocation: attributes of launches and copies are read on the hot path.
func TestNoAllocation(t *testing.T) {
	b := make([]byte, Memcpy3DSize+LaunchAttributeSize)
	if n := testing.AllocsPerRun(100, func() {
		m := Memcpy3D(b)
		m.Dst().SetPitch(m.Src().Height() + 1)
		a := LaunchAttribute(b[Memcpy3DSize:])
		a.SetID(LaunchAttributePriority)
		a.Value().SetPriority(-3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
