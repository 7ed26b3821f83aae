// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// TestStaysOfPTX: variables that a program can write to, and malloc, keep code where it is.
func TestStaysOfPTX(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		".global .u32 a;":        `such as "a"`,
		".const .u8 c[5] = {1};": `such as "c"`,
		".global .align 1 .b8 $str[4] = {37, 100, 10, 0};":          "",
		".global .align 1 .b8 __unnamed_1[3] = {1, 2, 0};":          "",
		".global .u8 $str[1], b[2];":                                `such as "b"`,
		".extern .global .align 4 .b8 a[1024];":                     "",
		".global .u16 a<100>;":                                      `such as "a"`,
		".visible .global .u64 _ZTV1A[3] = {0, 0, f};":              `such as "_ZTV1A"`,
		".extern .func (.param .b64 r) malloc(.param .b64 n);":      "malloc",
		".func f() { .global .u32 inside[7]; }":                     `such as "inside"`,
		".entry k() { ld.global.u32 %r1, [%rd1]; .shared .u32 s; }": "",
	} {
		why, err := Stays([]byte(footprintHead+text), 90, false, nil)
		if err != nil || !strings.Contains(why, want) || (want == "") != (why == "") {
			t.Errorf("%s: %q, %v, want %q", text, why, err, want)
		}
	}
	if why, err := Stays([]byte(footprintHead+".global .u8 a[4"), 90, false, nil); !errors.Is(err,
		ErrUnsupported) {
		t.Errorf("no end: %q, %v", why, err)
	}
}

// TestStaysOfCubins: what the compiler made of vars.cu has variables, and of a fat binary all code
// counts that the GPU can run.
func TestStaysOfCubins(t *testing.T) {
	for _, file := range []string{"vars.fatbin", "object.cubin", "object75.cubin", "linked.cubin"} {
		if name, err := variableOfCubin(compiledCubin(t, file), false); name == "" || err != nil {
			t.Errorf("%s: %q, %v", file, name, err)
		}
	}
	none, some := []byte(footprintHead), []byte(footprintHead+".global .u8 a[4096];")
	both := container(variant{fatbin.PTX, 75, none}, variant{fatbin.PTX, 80, some})
	for arch, want := range map[int]bool{75: false, 90: true} {
		if why, err := Stays(both, arch, false, nil); (why != "") != want || err != nil {
			t.Errorf("sm_%d: %q, %v", arch, why, err)
		}
	}
	_, err := Stays([]byte("nonsense"), 90, false, nil)
	if !errors.Is(err, fatbin.ErrInvalidImage) {
		t.Errorf("nonsense: %v", err)
	}
}
