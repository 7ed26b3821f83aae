// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parse reads small inputs.
func parse(structs, values, results string) (*Description, error) {
	return Parse(strings.NewReader(structs), strings.NewReader(values), strings.NewReader(results))
}

// TestGolden compares what small inputs give with files that somebody has checked.
func TestGolden(t *testing.T) {
	d, err := parse(`
handle CUevent
struct CUinner 8 host
  0 enum type
  4 i32 id                    # a comment
struct CUDA_OUTER3D_v2 72 as Outer
  0 CUinner where
  8 u16 usage
  10 u8[6] reserved
  16 u32 op.value
  16 u64 op.value64 since 13000
  16 CUevent op.late.event as Late
  24 f32[2] color
  32 size srcPitch
  40 const:void* srcHost
  48 size dstPitch
  56 void* dstHost
  halves Src Dst OuterSide
`, `
limits
  32764 MAX_PARAMETER_BYTES
values CU_KIND_ Kind
  0x01 GPU_1D
  -1 OTHER as ELSE since 13000
`, "0\tCUDA_SUCCESS\tno error\n7\tCUDA_ERROR_INVALID_PC\tinvalid program counter\t13000\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"structs.go.golden": d.GoStructs(), "values.go.golden": d.GoValues(),
		"results.go.golden": d.GoResults(),
		"layout.h.golden":   d.CHeader(), "host.h.golden": d.CHostHeader(),
		"values.h.golden": d.CValues(),
		"check.c.golden":  d.CheckProgram(),
	} {
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil || string(want) != string(got) {
			t.Errorf("%s: %v; got\n%s", name, err, got)
		}
	}
}

// TestNumbers: other descriptions may name structures, which are their sizes, and limits.
func TestNumbers(t *testing.T) {
	d, err := parse("struct CUx 8\n  0 u64 a\n",
		"limits\n  0x10 MOST\nvalues CU_KIND_ Kind\n  1 A", "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.numbers()
	want := map[string]Number{"CUx": {8, "XSize", "8"}, "MOST": {16, "Most", "CUDA_MOST"}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	d.groups[0].values[0].number = "-1"
	if _, err := d.numbers(); err == nil {
		t.Error("a limit below 0 is one")
	}
}

// TestRefused gives what can't be a layout of CUDA's, or is misspelt.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, structs, values, results, want string }{
		{"beyond the end", "struct CUx 4\n  0 u64 a", "", "", "beyond the structure's 4"},
		{"not aligned", "struct CUx 16\n  4 u64 a", "", "", "isn't aligned"},
		{"size not aligned", "struct CUx 12\n  0 u64 a", "", "", "isn't a multiple of 8"},
		{"one name twice", "struct CUx 8\n  0 u32 a\n  4 u32 a", "", "", "two fields are A"},
		{"unknown type", "struct CUx 8\n  0 CUy a", "", "", `type "CUy" isn't known`},
		{"unknown pointer", "struct CUx 8\n  0 CUy* a", "", "", "points to nothing known"},
		{"twice", "struct CUx 8\nstruct CUx 8", "", "", "described twice"},
		{"no structure", "  0 u32 a", "", "", "a field outside a structure"},
		{"misspelt", "struct CUx 8 ass X", "", "", "neither as nor since"},
		{"option without a word", "struct CUx 8 since", "", "", "without a word behind it"},
		{"no array", "struct CUx 8\n  0 u8[x] a", "", "", "isn't an array"},
		{"unequal halves", "struct CUx 16\n  0 u32 srcA\n  8 u64 dstA\n  halves Src Dst Side", "",
			"", "differ"},
		{"half a half", "struct CUx 16\n  0 u64 srcA\n  8 u64 srcB\n  halves Src Dst Side", "", "",
			"different fields"},
		{"a value of none", "", "  1 ONE", "", "a value outside a group"},
		{"no number", "", "limits\n  one ONE", "", "invalid syntax"},
		{"no result", "", "", "1\tCUDA_ERROR_X", "want number, name, text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.structs, c.values, c.results)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// TestNames turns the header's names into Go's.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{structName("CUDA_ARRAY3D_DESCRIPTOR"), "Array3DDescriptor"},
		{structName("CUDA_MEMSET_NODE_PARAMS_v2"), "MemsetNodeParamsV2"},
		{structName("CUmemcpy3DOperand"), "Memcpy3DOperand"},
		{fieldName("programmaticEvent.triggerAtBlockStart"),
			"ProgrammaticEventTriggerAtBlockStart"},
		{fieldName("from_port"), "FromPort"},
		{constantName("MAXIMUM_TEXTURE1D_WIDTH"), "MaximumTexture1DWidth"},
		{constantName("HOST_NUMA_ID"), "HostNUMAID"},
		{constantName("MAX_L2_FETCH_GRANULARITY"), "MaxL2FetchGranularity"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
