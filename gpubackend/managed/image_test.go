// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

const base = 0x7f1234560000

// golden reads what nvcc made of testdata/golden/vars.cu.
func golden(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/golden", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// open returns the code of an image of the form wanted.
func open(tb testing.TB, image []byte, form string) *Code {
	tb.Helper()
	codes, err := Open(image, 90, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range codes {
		if c.Form == form {
			return c
		}
	}
	tb.Fatalf("no %s among %d codes", form, len(codes))
	return nil
}

func place(tb testing.TB, c *Code, at uint64) []byte {
	tb.Helper()
	out := c.Place(at)
	if name, found := Find(out, nil); found {
		tb.Errorf("%s is managed still", name)
	}
	return out
}

// variant is one of a fat binary.
type variant struct {
	kind    fatbin.Kind
	arch    uint32
	payload []byte
}

// container is a fat binary, in the form that package fatbin describes.
func container(variants ...variant) []byte {
	le := binary.LittleEndian
	var body []byte
	for _, e := range variants {
		payload := append(bytes.Clone(e.payload), make([]byte, -len(e.payload)&7)...)
		h := make([]byte, 64)
		le.PutUint16(h, uint16(e.kind))
		le.PutUint32(h[4:], 64)
		le.PutUint64(h[8:], uint64(len(payload)))
		le.PutUint32(h[28:], e.arch)
		body = append(append(body, h...), payload...)
	}
	head := make([]byte, 16)
	le.PutUint32(head, 0xba55ed50)
	le.PutUint16(head[4:], 1)
	le.PutUint16(head[6:], 16)
	le.PutUint64(head[8:], uint64(len(body)))
	return append(head, body...)
}

// wantVariables are those of vars.cu; numbers and flag have no initial content.
var wantVariables = map[string]uint64{"counter": 4, "table": 56, "numbers": 2000, "toPlain": 8,
	"flag": 1}

func TestVariables(t *testing.T) {
	t.Parallel()
	for file, forms := range map[string][]string{
		"vars.fatbin": {"cubin", "PTX"}, "object.cubin": {"cubin"}, "object75.cubin": {"cubin"},
		"linked.cubin": {"cubin"},
	} {
		image := golden(t, file)
		if name, found := Find(image, nil); !found || wantVariables[name] == 0 {
			t.Errorf("%s: found %q, %v", file, name, found)
		}
		for _, form := range forms {
			c := open(t, image, form)
			if len(c.Variables) != len(wantVariables) {
				t.Errorf("%s, %s: variables %v", file, form, c.Variables)
			}
			used := make([]bool, c.Bytes)
			for _, v := range c.Variables {
				zero := v.Name == "numbers" || v.Name == "flag"
				if v.Size != wantVariables[v.Name] || v.Offset%min(v.Size&-v.Size, 8) != 0 ||
					(v.Content == "") != zero {
					t.Errorf("%s, %s: %+v", file, form, v)
				}
				for i := range v.Size {
					if used[v.Offset+i] {
						t.Fatalf("%s, %s: %s overlaps another", file, form, v.Name)
					}
					used[v.Offset+i] = true
				}
			}
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	whole := golden(t, "vars.fatbin")
	opened, err := fatbin.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	var cubin, ptx []byte
	for _, e := range opened.Variants {
		payload, err := e.Payload(nil)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == fatbin.PTX {
			ptx = payload
		} else {
			cubin = payload
		}
	}
	odd := golden(t, "linked.cubin") // of a form that nobody knows
	odd[8] = 9
	other := bytes.ReplaceAll(ptx, []byte("counter"), []byte("another"))
	kind := bytes.Clone(odd)
	binary.LittleEndian.PutUint32(kind[relocationOf(t, kind)+8:], 99)
	plain := bytes.ReplaceAll(ptx, []byte(".attribute(.managed)"), nil)
	for _, c := range []struct {
		name  string
		image []byte
		arch  int
		found bool
		forms string
		err   error
	}{
		{"both", whole, 90, true, "cubin PTX", nil},
		{"newer GPU of the kind", whole, 92, true, "cubin PTX", nil},
		{"GPU of another kind", whole, 100, true, "PTX", nil},
		{"older GPU", whole, 80, true, "", fatbin.ErrNoBinary},
		{"PTX", ptx, 90, true, "PTX", nil},
		{"cubin", cubin, 90, true, "cubin", nil},
		{"cubin for another GPU", container(variant{fatbin.ELF, 80, cubin}), 90, true, "",
			fatbin.ErrNoBinary},
		{"the better cubin",
			container(variant{fatbin.ELF, 80, odd}, variant{fatbin.NewELF, 86, cubin}), 89,
			true, "cubin", nil},
		{"unknown form", odd, 90, true, "cubin", nil},
		{"unknown form, with PTX",
			container(variant{fatbin.ELF, 90, odd}, variant{fatbin.PTX, 90, ptx}), 90, true,
			"cubin PTX", nil},
		{"of other PTX",
			container(variant{fatbin.ELF, 90, odd}, variant{fatbin.PTX, 90, other}), 90,
			true, "PTX", nil},
		{"unknown relocation", kind, 90, true, "", ErrUnsupported},
		{"unknown relocation, with PTX",
			container(variant{fatbin.ELF, 90, kind}, variant{fatbin.PTX, 90, ptx}), 90, true, "PTX",
			nil},
		{"plain PTX", plain, 90, false, "", nil},
		{"no image", []byte("rubbish"), 90, false, "", fatbin.ErrInvalidImage},
	} {
		if _, found := Find(c.image, nil); found != c.found {
			t.Errorf("%s: found %v", c.name, found)
		}
		codes, err := Open(c.image, c.arch, nil)
		var forms []string
		for _, code := range codes {
			forms = append(forms, code.Form)
		}
		if got := strings.Join(forms, " "); got != c.forms || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, error %v; want %q, %v", c.name, got, err, c.forms, c.err)
		}
	}
}

// TestDamaged cuts images short and changes them: nothing is read or written beyond their ends.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"vars.fatbin", "object.cubin", "object75.cubin", "linked.cubin"} {
		image := golden(t, file)
		for n := range image {
			try(image[:n])
			damaged := bytes.Clone(image)
			damaged[n] ^= 0xff
			try(damaged)
		}
	}
}

// try takes an image as the worker does.
func try(image []byte) {
	Find(image, nil)
	_, _ = Footprint(image, 90, nil)
	_, _ = Stays(image, 90, false, nil)
	_, _ = Stays(image, 90, true, nil)
	codes, _ := Open(image, 90, nil)
	if plain, err := OpenPlain(image, 90, nil); err == nil && plain != nil {
		codes = append(codes, plain)
	}
	for _, c := range codes {
		out := c.Place(base)
		for i := range c.Variables {
			c.Variables[i].Initial(out)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, file := range []string{"vars.fatbin", "object.cubin", "object75.cubin", "linked.cubin",
		"stored.cubin"} {
		f.Add(golden(f, file))
	}
	f.Add([]byte(debugText + ".entry k() { call twice; mov.u64 %rd1, twice; }"))
	f.Add([]byte(ptxHead +
		".global .attribute(.managed) .u32 a = 1;\n" +
		".visible .entry k() { ld.global.u32 %r1, [a+4]; }"))
	f.Fuzz(func(_ *testing.T, image []byte) { try(image) })
}

// TestImagesCount: what is read and rewritten is taken first, and an image that there is no memory
// for is refused as that.
func TestImagesCount(t *testing.T) {
	var text strings.Builder
	text.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n" +
		".visible .global .attribute(.managed) .align 4 .u32 here;\n" +
		".visible .entry f() {\n.reg .b64 a;\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "mov.u64 a, here+%d;\n", i)
	}
	text.WriteString("ret;\n}\n")
	image := []byte(text.String())
	host := budget.New(1 << 30)
	mem := host.Open()
	codes, err := Open(image, 90, mem)
	if err != nil || len(codes) != 1 {
		t.Fatalf("%d codes, %v", len(codes), err)
	}
	placed := codes[0].Place(MaxAlign)
	if least := uint64(len(image) + len(placed)); mem.Bytes() < least || mem.Bytes() > 50*least {
		t.Errorf("%d bytes count for a text of %d and one of %d", mem.Bytes(), len(image),
			len(placed))
	}
	mem.Close()
	for limit := uint64(0); limit < 200<<10; limit += 10 << 10 {
		host.SetLimit(limit)
		mem := host.Open()
		_, err := Open(image, 90, mem)
		_, found := Find(image, mem.Sibling())
		_, short := Footprint(image, 90, mem.Sibling())
		if _, unread := Stays(image, 90, false, mem.Sibling()); (unread == nil) != (short == nil) {
			t.Errorf("with %d bytes: %v, but %v", limit, unread, short)
		}
		fits := limit >= uint64(len(image))
		if !errors.Is(err, budget.ErrExceeded) ||
			!fits && (found || !errors.Is(short, budget.ErrExceeded)) {
			t.Errorf("with %d bytes: %v, found %v, %v", limit, err, found, short)
		}
		if mem.Close(); host.Used() != 0 {
			t.Errorf("with %d bytes: %d are counted in the end", limit, host.Used())
		}
	}
}
