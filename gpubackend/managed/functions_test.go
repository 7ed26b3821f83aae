// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
)

// debugText is a text that the driver compiles for a debugger.
const debugText = ".version 8.4\n.target sm_75, debug\n.address_size 64\n" +
	".visible .func (.param .b32 out) twice(.param .b32 in) { ret; }\n"

// TestFunctions: code that gets the address of a function stays, whether its variables are placed
// or not. What only calls functions doesn't, nor what knows them by numbers.
func TestFunctions(t *testing.T) {
	t.Parallel()
	const takes = ".entry store(.param .u64 to) { mov.u64 %rd1, twice; st.u64 [%rd2], %rd1; }\n"
	for _, x := range []struct {
		name, image string
		takes       string
	}{
		{"compiled as a whole", string(golden(t, "whole.cubin")), ""},
		{"linked, and stored", string(golden(t, "stored.cubin")), "twice"},
		{"linked, and called", string(golden(t, "called.cubin")), ""},
		{"text", strings.Replace(debugText+takes, ", debug", "", 1), ""},
		{"text for a debugger", debugText, ""},
		{"stored there", debugText + takes, "twice"},
		{"a kernel's", debugText + ".entry k() { mov.u64 %rd1, k; }", "k"},
		{"in content", debugText + ".extern .global .u64 table[1] = {generic(twice)};", "twice"},
		{"called there", debugText + ".entry k() { .loc 1 2 3\n@%p1 call.uni (out), twice, (in); }",
			""},
		{"listed for a call", debugText + ".entry k() { all: .calltargets twice, twice; }", ""},
		{"with another name", debugText + ".visible .func again;\n.alias again, twice;", ""},
		{"described", debugText + ".section .debug_info { .b64 twice }", ""},
	} {
		for _, placed := range []bool{false, true} {
			arch := 90
			if strings.Contains(x.name, "called") {
				arch = 80
			}
			why, err := Stays([]byte(x.image), arch, placed, nil)
			want := ""
			if x.takes != "" {
				want = `its code has addresses of functions, such as "` + x.takes + `"`
			}
			if why != want || err != nil {
				t.Errorf("%s: %q, %v, want %q", x.name, why, err, want)
			}
		}
	}
}

// TestFunctionsUnread: what can't be read isn't taken for harmless.
func TestFunctionsUnread(t *testing.T) {
	t.Parallel()
	image := golden(t, "stored.cubin")
	f, err := readELF(image)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.sections {
		if s := &f.sections[i]; s.kind == typeRela {
			binary.LittleEndian.PutUint64(image[s.at+sectionSize:], s.size-1)
		}
	}
	if why, err := Stays(image, 90, true, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a table of another size: %q, %v", why, err)
	}
	if why, err := Stays([]byte(debugText+"\""), 90, true, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a text without an end: %q, %v", why, err)
	}
	for _, most := range []uint64{1, uint64(len(debugText)) + 1} {
		mem := budget.New(most).Open()
		why, err := Stays([]byte(debugText), 90, true, mem)
		if !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("%d bytes: %q, %v", most, why, err)
		}
		mem.Close()
	}
}
