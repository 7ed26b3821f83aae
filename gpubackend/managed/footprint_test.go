// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

const footprintHead = ".version 8.4\n.target sm_75\n.address_size 64\n"

func TestFootprintOfPTX(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                     0,
		".global .u32 a;":                      4,
		".global .align 8 .b8 a[42949672960];": 42949672960 + 8,
		".visible .global .v4 .f32 a[2][3], b;\n.const .u8 c[5];": 96 + 16 + 5,
		".weak .global .u32 a[2] = {1, 2}, b = 3;":                12,
		".global .attribute(.managed) .align 4 .u32 a[3];":        16,
		".extern .global .align 4 .b8 a[1024];":                   0,
		".global .u64 a[18446744073709551615];":                   MaxFootprint,
		".global .u64 a[4294967296][4294967296];":                 MaxFootprint,
		".global .u16 a<100>;":                                    200,
		".entry k(.param .u64 .ptr .global .align 16 p) { ld.global.u32 %r1, [%rd1]; " +
			"st.global.v2.u32 [a], {%r1, %r2}; }": 0,
		".func f() { .global .u32 inside[7]; cvta.to.global.u64 %rd1, %rd2; }": 28,
	} {
		if got, err := Footprint([]byte(footprintHead+text), 90, nil); got != want || err != nil {
			t.Errorf("%s: %d bytes, want %d, %v", text, got, want, err)
		}
	}
	unsized := footprintHead + ".global .u32 a[] = {1, 2};"
	if got, err := Footprint([]byte(unsized), 90, nil); got < 8 || err != nil {
		t.Errorf("without a number of elements: %d, %v", got, err)
	}
	for _, text := range []string{".global .u8 a[1024*1024];", ".global .u8 a[N];",
		".global .u8 a[4"} {
		if got, err := Footprint([]byte(footprintHead+text), 90, nil); !errors.Is(err,
			ErrUnsupported) {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// TestFootprintOfCubin: what the compiler made of vars.cu, and sections that are larger than their
// file.
func TestFootprintOfCubin(t *testing.T) {
	least := uint64(0)
	for _, n := range wantVariables {
		least += n
	}
	for _, file := range []string{"vars.fatbin", "object.cubin", "object75.cubin", "linked.cubin"} {
		code := compiledCubin(t, file)
		got, err := variablesOfCubin(code, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got < least || got > least+64<<10 {
			t.Errorf("%s: %d bytes, variables are %d", file, got, least)
		}
		f, err := readELF(code)
		if err != nil {
			t.Fatal(err)
		}
		large := append([]byte(nil), code...)
		for i := range f.sections {
			if s := &f.sections[i]; s.empty() {
				binary.LittleEndian.PutUint64(large[s.at+32:], 40<<30)
			}
		}
		if got, err = Footprint(large, 90, nil); got < 40<<30 || err != nil {
			t.Errorf("%s with 40 GiB: %d, %v", file, got, err)
		}
	}
}

// TestFootprintOfFatbin is that of the largest code that the GPU can run.
func TestFootprintOfFatbin(t *testing.T) {
	small, large := []byte(footprintHead+".global .u8 a[16];"),
		[]byte(footprintHead+".global .u8 a[4096];")
	both := container(variant{fatbin.PTX, 75, small}, variant{fatbin.PTX, 80, large},
		variant{fatbin.PTX, 120, []byte(footprintHead + ".global .u8 a[9999];")})
	for arch, want := range map[int]uint64{75: 16, 90: 4096, 70: 0} {
		if got, err := Footprint(both, arch, nil); got != want || err != nil {
			t.Errorf("sm_%d: %d bytes, want %d, %v", arch, got, want, err)
		}
	}
	if _, err := Footprint([]byte("nonsense"), 90, nil); !errors.Is(err, fatbin.ErrInvalidImage) {
		t.Errorf("nonsense: %v", err)
	}
}
