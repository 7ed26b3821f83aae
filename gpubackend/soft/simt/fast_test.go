// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"fmt"
	"math"
	"math/rand"
	"sort"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// instructionOf is a PTX instruction that decodes to the fast version key.
func instructionOf(key string, types [4]string) string {
	op, rest, _ := strings.Cut(key, ".")
	bits := strings.NewReplacer("u16", "b16", "u32", "b32", "u64", "b64")
	switch op {
	case "and", "or", "xor", "not", "shl", "selp":
		rest = bits.Replace(rest)
	case "popc", "clz":
		rest = bits.Replace(rest)
	case "neg":
		rest = strings.ReplaceAll(rest, "u", "s")
	case "fma", "div", "sqrt", "rcp":
		if strings.HasPrefix(rest, "f") {
			rest = "rn." + rest
		}
	case "add", "sub", "mul":
		if strings.HasPrefix(rest, "ftz") {
			rest = "rn." + rest
		}
	case "cvt":
		if rest == "f32.f64" || strings.HasPrefix(rest, "f") && !strings.Contains(rest, ".f") {
			rest = "rn." + rest
		}
	}
	args := []string{}
	for i, t := range types {
		if t != "" {
			args = append(args, fmt.Sprintf("%%%s_%d", t, i))
		}
	}
	return op + "." + rest + " " + strings.Join(args, ", ") + ";"
}

// typesOf gives the register types of destination and sources for a key.
func typesOf(key string) [4]string {
	parts := strings.Split(key, ".")
	last := parts[len(parts)-1]
	n := last[1:]
	t := "b" + n
	switch parts[0] {
	case "setp":
		return [4]string{"pred", t, t}
	case "selp":
		return [4]string{t, t, t, "pred"}
	case "fma":
		return [4]string{t, t, t, t}
	case "mad", "mul":
		dt := t
		if parts[1] == "wide" {
			dt = "b64"
		}
		if parts[0] == "mad" {
			return [4]string{dt, t, t, dt}
		}
		return [4]string{dt, t, t}
	case "cvt":
		return [4]string{"b" + parts[len(parts)-2][1:], t}
	case "popc", "clz":
		return [4]string{"b32", t}
	case "shl", "shr":
		return [4]string{t, t, "b32"}
	case "neg", "abs", "not", "mov", "sqrt", "rcp":
		return [4]string{t, t}
	}
	return [4]string{t, t, t}
}

// edges are values worth a test, as bits.
var edges = []uint64{0, 1, 2, 31, 32, 33, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff,
	0x7fffffffffffffff, 1 << 63,
	^uint64(0), 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x80000001,
	0x4f000000, 0xcf000000,
	math.Float64bits(1), math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)),
	scalar.NaN64,
	math.Float64bits(1e300),
	0x0000000000000001, 0x8000000000000000, 0x007fffff, 0x00800000}

func fillRandom(r *rand.Rand, w *warp, off uint32, wd width) {
	var v [lanes]uint64
	for i := range v {
		switch r.Intn(4) {
		case 0:
			v[i] = edges[r.Intn(len(edges))]
		case 1:
			v[i] = uint64(math.Float32bits(float32(r.NormFloat64())))
			if wd == width64 {
				v[i] = math.Float64bits(r.NormFloat64())
			}
		case 2:
			v[i] = uint64(r.Intn(100))
		default:
			v[i] = r.Uint64()
		}
	}
	w.store(off, wd, &v, allLanes)
}

// TestFastVersions compares each fast version, in Go and in assembly, with the
// lane-by-lane reference, under full and partial masks.
func TestFastVersions(t *testing.T) {
	t.Parallel()
	keys := make([]string, 0, len(goExecs))
	for key := range goExecs {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			types := typesOf(key)
			var text strings.Builder
			text.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n" +
				".visible .entry k()\n{\n")
			for i, typ := range types {
				if typ != "" {
					fmt.Fprintf(&text, ".reg .%s %%%s_%d;\n", typ, typ, i)
				}
			}
			text.WriteString(instructionOf(key, types) + "\nret;\n}\n")
			m, err := ptx.Parse([]byte(text.String()), nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Load(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			in := p.code[0]
			if in.scalar == nil {
				t.Fatal("no reference")
			}
			compareExecs(t, p, in, key)
		})
	}
}

func compareExecs(t *testing.T, p *Program, in inst, key string) {
	t.Helper()
	r := rand.New(rand.NewSource(int64(len(key))))
	slab, regs := newSlab(int(p.decoded[0].frameSize))
	w := &warp{regs: regs}
	execs := map[string]execFunc{"Go": goExecs[key], "best": fastExecs[key]}
	reference := execScalar1
	if in.cw != 0 {
		reference = execScalar3
	} else if in.bw != 0 {
		reference = execScalar2
	}
	for range 200 {
		for _, op := range []struct {
			off uint32
			wd  width
		}{{in.a, in.aw}, {in.b, in.bw}, {in.c, in.cw}, {in.d, in.dw}} {
			if op.wd != 0 {
				fillRandom(r, w, op.off, op.wd)
			}
		}
		mask := allLanes
		if r.Intn(2) == 0 {
			mask = r.Uint32()
		}
		before := append([]uint64(nil), slab...)
		reference(w, &in, mask)
		want := append([]uint64(nil), slab...)
		for name, exec := range execs {
			copy(slab, before)
			exec(w, &in, mask)
			for i := range want {
				// Which of several NaNs a product hands on differs between processors.
				if nan := scalar.ToF64(slab[i]) != scalar.ToF64(slab[i]) &&
					scalar.ToF64(want[i]) != scalar.ToF64(want[i]); nan && key == "fma.f64" {
					continue
				}
				if slab[i] != want[i] {
					t.Fatalf("%s version: word %d is %#x, want %#x", name, i, slab[i], want[i])
				}
			}
			copy(slab, before)
		}
	}
}
