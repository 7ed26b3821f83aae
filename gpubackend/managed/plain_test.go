// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

// TestPlacePlainCubin: all variables of plain.cu get places, with the compiler's content, in which
// addresses are those places; no relocation of theirs is left.
func TestPlacePlainCubin(t *testing.T) {
	t.Parallel()
	c, err := OpenPlain(golden(t, "plain.cubin"), 90, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, le := c.Place(base), binary.LittleEndian
	at := map[string]uint64{}
	for i := range c.Variables {
		v := &c.Variables[i]
		at[v.Name] = base + v.Offset
		if v.Content != "" {
			t.Errorf("the driver has the content of %s", v.Name)
		}
	}
	want := map[string][]byte{
		"counter": nil, "seven": {7, 0, 0, 0}, "$str": []byte("a text\x00"),
		"place":  le.AppendUint64(nil, at["counter"]),
		"hidden": append([]byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, make([]byte, 32)...),
	}
	if len(at) != len(want) {
		t.Errorf("variables %v", at)
	}
	for i := range c.Variables {
		v := &c.Variables[i]
		if got := v.Initial(out); !bytes.Equal(got, want[v.Name]) {
			t.Errorf("%s begins with %v, want %v", v.Name, got, want[v.Name])
		}
	}
	for _, r := range relocations(t, out) {
		if at[r.symbol] != 0 {
			t.Errorf("a relocation of %s is left", r.symbol)
		}
	}
}

// plainText has what nvcc makes of plain variables, and one in constant memory.
const plainText = footprintHead + `
.global .align 4 .u32 counter;
.visible .global .align 8 .u64 place = generic(counter);
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2};
.global .align 1 .b8 $str[4] = {97, 98, 99};
.visible .entry change() { .reg .b64 %rd<3>; mov.u64 %rd1, $str; cvta.global.u64 %rd2, %rd1;
st.global.u64 [place], %rd2; ld.const.u32 %r4, [table]; }
`

// TestPlacePlainPTX: no variable is left but those with the initial content.
func TestPlacePlainPTX(t *testing.T) {
	t.Parallel()
	c, err := OpenPlain([]byte(plainText), 90, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := string(c.Place(base))
	for i := range c.Variables {
		v := &c.Variables[i]
		if (v.Content == "") != (v.Name == "counter") || v.Initial([]byte(out)) != nil {
			t.Errorf("%s has content %q", v.Name, v.Content)
		}
		if strings.Contains(out, " "+v.Name) || strings.Contains(out, "["+v.Name) {
			t.Errorf("%s is in\n%s", v.Name, out)
		}
	}
	if len(c.Variables) != 3 || !strings.Contains(out, "table[16]") {
		t.Errorf("%d variables, in\n%s", len(c.Variables), out)
	}
}

// TestPlainStays: code that depends on places that only the driver knows isn't opened.
func TestPlainStays(t *testing.T) {
	t.Parallel()
	plain := golden(t, "plain.cubin")
	text := func(code string) []byte { return []byte(footprintHead + code) }
	for _, x := range []struct {
		image []byte
		arch  int
		why   string
	}{
		{golden(t, "constants.cubin"), 90, "whose addresses it may take (.text.change reads 0xd0)"},
		{golden(t, "functions.cubin"), 90, `function "twice"`},
		{golden(t, "object.cubin"), 90, "managed"},
		{container(variant{fatbin.ELF, 90, plain}, variant{fatbin.ELF, 90, plain}), 90,
			"two cubins"},
		{text(".const .u32 c; .func f() { cvta.const.u64 %a, %b; }"), 90, "constant"},
		{text(".global .attribute(.managed) .u32 m;"), 90, "managed"},
		{text(".global .u32 a; .extern .global .u32 m;"), 90, "another module"},
		{text(".func f() { .global .u32 inside[7]; }"), 90, "in a function"},
		{text(".global .texref t;"), 90, "wrong declaration"},
		{text(".global .u32 a, b;"), 90, "wrong declaration"},
		{[]byte("nonsense"), 90, "image"},
		{plain, 100, "whose addresses it may take"},
	} {
		c, err := OpenPlain(x.image, x.arch, nil)
		if c != nil || !errors.Is(err, ErrStays) || !strings.Contains(err.Error(), x.why) {
			t.Errorf("want %q: %v", x.why, err)
		}
	}
}

// TestPlainWithout: code without variables isn't changed; of a fat binary, all code counts that the
// GPU can run.
func TestPlainWithout(t *testing.T) {
	t.Parallel()
	head := ".version 8.4\n.target sm_80\n.address_size 64\n"
	none, some := []byte(head), []byte(head+".global .u8 a[4096];")
	if c, err := OpenPlain(none, 90, nil); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	both := container(variant{fatbin.PTX, 80, none}, variant{fatbin.PTX, 86, some})
	if c, err := OpenPlain(both, 80, nil); c != nil || err != nil {
		t.Errorf("sm_80: %v, %v", c, err)
	}
	if c, err := OpenPlain(both, 90, nil); err != nil || len(c.Variables) != 1 {
		t.Errorf("sm_90: %v, %v", c, err)
	}
	mem := budget.New(100).Open()
	defer mem.Close()
	if _, err := OpenPlain(golden(t, "plain.cubin"), 90, mem); err == nil {
		t.Error("memory without a bound is taken")
	}
}

// TestDriversWord: of the words before the parameters, only those are harmless that tell of no
// address; an index makes a word one of the parameters.
func TestDriversWord(t *testing.T) {
	t.Parallel()
	for low, found := range map[uint64]bool{
		0x0000340000047ab9: true,  // ULDC.64 UR4, c[0x0][0xd0]
		0x0000820000047ab9: false, // ULDC.64 UR4, c[0x0][0x208]
		0x00008600ff007b82: false, // LDC R0, c[0x0][0x218]
		0x00c0340006007b82: false, // LDC R0, c[0x3][R6+0xd0]
		0x0000340006007b82: false, // LDC R0, c[0x0][R6+0xd0]
		0x00003400ff007b82: true,  // LDC R0, c[0x0][0xd0]
		0x0000340000047a24: true,  // with a word as its second operand
		0x0000340000047824: false, // with a number there
	} {
		code := binary.LittleEndian.AppendUint64(make([]byte, instruction), low)
		code = binary.LittleEndian.AppendUint64(code, 0)
		if at, is := driversWord(code, hopper); is != found || is && at != 0xd0 {
			t.Errorf("%#x: %#x, %v", low, at, is)
		}
	}
}
