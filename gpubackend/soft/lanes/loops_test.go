// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/lanes/lanestest"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
	"github.com/paracuda/paracuda/gpubackend/soft/softfloat"
)

// referenceOf is what a loop computes for each lane, by its key.
func referenceOf(key string) scalar.Func {
	parts := strings.Split(key, ".")
	op, t := parts[0], ptx.TypeOf(parts[len(parts)-1])
	style := scalar.Style{Type: t, FTZ: parts[1] == "ftz"}
	switch op {
	case "mov":
		return scalar.Identity
	case "selp":
		return scalar.SelectIf
	case "setp":
		return scalar.Compare(parts[1], t, false)
	case "cvt":
		c := scalar.Conversion{To: ptx.TypeOf(parts[len(parts)-2]), From: t,
			Integral: len(parts) == 4}
		if c.Integral {
			c.Rounding = softfloat.Rounding(slices.Index([]string{"rni", "rzi", "rmi", "rpi"},
				parts[1]))
		}
		return c.Func()
	case "fma":
		return style.Apply(scalar.FMA(style))
	case "mad":
		return scalar.AddTo(scalar.Integer("mul."+parts[1], t))
	case "not", "neg", "abs", "popc", "clz", "sqrt", "rcp":
		if t.Float() {
			return style.Apply(scalar.FloatUnary(op, style))
		}
		return scalar.IntegerUnary(op, t)
	}
	if t.Float() {
		return style.Apply(scalar.Float(op, style))
	}
	if op == "mul" {
		op += "." + parts[1]
	}
	return scalar.Integer(op, t)
}

// edges are values worth a test, as bits.
var edges = []uint64{0, 1, 2, 31, 32, 33, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 1<<63 - 1,
	1 << 63, ^uint64(0), 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x80000001,
	0x4f000000, 0xcf000000, 0x007fffff, 0x00800000,
	math.Float64bits(1), math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)),
	scalar.NaN64, math.Float64bits(1e300)}

func fillRandom(r *rand.Rand, regs Registers, off uint32, wd Width) {
	var v [Count]uint64
	for i := range v {
		switch r.Intn(4) {
		case 0:
			v[i] = edges[r.Intn(len(edges))]
		case 1:
			v[i] = uint64(math.Float32bits(float32(r.NormFloat64())))
			if wd == Width64 {
				v[i] = math.Float64bits(r.NormFloat64())
			}
		case 2:
			v[i] = uint64(r.Intn(100))
		default:
			v[i] = r.Uint64()
		}
	}
	regs.Store(off, wd, &v, All)
}

// operandsOf are registers of the widths that a loop takes, one behind the other.
func operandsOf(key string) (o Operands, sources int) {
	types := lanestest.TypesOf(key)
	offs := [...]*uint32{&o.D, &o.A, &o.B, &o.C}
	widths := [...]*Width{&o.DW, &o.AW, &o.BW, &o.CW}
	for i, t := range types {
		if t == "" {
			break
		}
		*offs[i], sources = uint32(i)*8*Count, i
		if *widths[i] = WidthPred; t != "pred" {
			*widths[i] = Width(ptx.TypeOf(t).Size())
		}
	}
	return o, sources
}

// TestLoops compares each loop, in Go and in assembly, with the lane-by-lane reference, under full
// and partial masks.
func TestLoops(t *testing.T) {
	t.Parallel()
	for _, key := range Loops() {
		t.Run(key, func(t *testing.T) {
			f := referenceOf(key)
			if f == nil {
				t.Fatal("no reference")
			}
			compareLoops(t, key, f)
		})
	}
}

func compareLoops(t *testing.T, key string, f scalar.Func) {
	t.Helper()
	o, sources := operandsOf(key)
	r := rand.New(rand.NewSource(int64(len(key))))
	slab, regs := NewRegisters(4 * 8 * Count)
	loops := map[string]Func{"Go": goLoops[key], "best": best[key]}
	reference := Each(sources, f)
	for range 200 {
		for _, op := range []struct {
			off uint32
			wd  Width
		}{{o.A, o.AW}, {o.B, o.BW}, {o.C, o.CW}, {o.D, o.DW}} {
			if op.wd != 0 {
				fillRandom(r, regs, op.off, op.wd)
			}
		}
		mask := All
		if r.Intn(2) == 0 {
			mask = r.Uint32()
		}
		before := slices.Clone(slab)
		reference(regs, &o, mask)
		want := slices.Clone(slab)
		for name, loop := range loops {
			copy(slab, before)
			loop(regs, &o, mask)
			for i := range want {
				// Which of several NaNs a fused multiply-add returns differs between processors.
				if nan := math.IsNaN(math.Float64frombits(slab[i])) &&
					math.IsNaN(math.Float64frombits(want[i])); nan && key == "fma.f64" {
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
